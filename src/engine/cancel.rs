//! Cancellation: one flag that everything long looks at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// A flag that can be raised once and is seen by all clones.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A flag that is down.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises it.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it is up.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Fails once the flag is up.
    ///
    /// # Errors
    /// An interruption.
    pub fn proceed(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::interrupted()) } else { Ok(()) }
    }
}
