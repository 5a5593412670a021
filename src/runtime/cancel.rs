//! Cancellation: one flag that everything long looks at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// A flag that can be raised once and is seen by all clones, and by all children.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    raised: Arc<AtomicBool>,
    parent: Option<Box<Cancel>>,
}

impl Cancel {
    /// A flag that is down.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A flag that is up when it is raised itself, or when this one is.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { raised: Arc::default(), parent: Some(Box::new(self.clone())) }
    }

    /// Raises it.
    pub fn cancel(&self) {
        self.raised.store(true, Ordering::SeqCst);
    }

    /// Whether it is up.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.raised.load(Ordering::SeqCst) || self.parent.as_ref().is_some_and(|parent| parent.is_cancelled())
    }

    /// Fails once the flag is up.
    ///
    /// # Errors
    /// An interruption.
    pub fn proceed(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::interrupted()) } else { Ok(()) }
    }
}
