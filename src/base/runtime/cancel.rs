//! Cancellation token, checked by every long operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Cancellation token. Cancelling it cancels all its clones and children, for good.
#[derive(Debug, Clone, Default)]
pub struct CancelToken {
    raised: Arc<AtomicBool>,
    parent: Option<Box<CancelToken>>,
}

impl CancelToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A child token. Cancelling this token also cancels the child; cancelling the child does not affect this token.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { raised: Arc::default(), parent: Some(Box::new(self.clone())) }
    }

    /// Cancels the token and its children.
    pub fn cancel(&self) {
        self.raised.store(true, Ordering::SeqCst);
    }

    /// Returns true if the token or one of its parents is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.raised.load(Ordering::SeqCst) || self.parent.as_ref().is_some_and(|parent| parent.is_cancelled())
    }

    /// Fails if the token is cancelled.
    ///
    /// # Errors
    /// [`Error::interrupted`] if the token is cancelled.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::interrupted()) } else { Ok(()) }
    }
}
