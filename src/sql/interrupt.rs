//! Interruption of the running statement of a session, for Ctrl-C.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use futures::future::{Either, select};
use tokio::sync::Notify;

use crate::error::{Error, ErrorCategory, Result};

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const INTERRUPTED: u8 = 2;

/// Handle that interrupts the running statement of a session, from any thread.
#[derive(Debug, Clone, Default)]
pub struct StatementInterrupt(Arc<InterruptState>);

#[derive(Debug, Default)]
struct InterruptState {
    state: AtomicU8,
    changed: Notify,
}

impl StatementInterrupt {
    /// Interrupts the running statement, which ends with an error. Returns false if none is running, or if it has been
    /// interrupted already.
    #[must_use]
    pub fn interrupt(&self) -> bool {
        let state = &self.0.state;
        let is_first = state.compare_exchange(RUNNING, INTERRUPTED, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        self.0.changed.notify_waiters();
        is_first
    }

    /// Marks the start of a statement, until the returned guard is dropped.
    pub(super) fn start(&self) -> RunningStatement {
        self.0.state.store(RUNNING, Ordering::SeqCst);
        RunningStatement(self.clone())
    }
}

/// Guard of a running statement.
pub(super) struct RunningStatement(StatementInterrupt);

impl RunningStatement {
    /// Waits for `work`, or fails at once when the statement is interrupted.
    pub(super) async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let shared = &self.0.0;
        let mut changed = pin!(shared.changed.notified());
        // Registered before the state is read, so that no interruption is missed.
        changed.as_mut().enable();
        let interrupted = || Error::new(ErrorCategory::Interrupted, "the statement was interrupted");
        if shared.state.load(Ordering::SeqCst) == INTERRUPTED {
            return Err(interrupted());
        }
        match select(changed, pin!(work)).await {
            Either::Left(_) => Err(interrupted()),
            Either::Right((result, _)) => Ok(result),
        }
    }
}

impl Drop for RunningStatement {
    fn drop(&mut self) {
        self.0.0.state.store(IDLE, Ordering::SeqCst);
    }
}
