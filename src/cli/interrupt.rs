//! Ctrl-C and SIGTERM: the first signal cancels the run, the second ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};

use super::console::write_stderr;
use crate::error::{Error, ErrorCategory, Result};
use crate::runtime::CancelToken;
use crate::sql::StatementInterrupt;

/// Sets `cancel` at the first signal, and ends the process at the second.
///
/// # Errors
/// The signal handler cannot be installed.
pub(super) fn cancel_on_signal(cancel: &CancelToken) -> Result<()> {
    let cancel = cancel.clone();
    let is_interrupted = AtomicBool::new(false);
    ctrlc::set_handler(move || {
        if is_interrupted.swap(true, Ordering::SeqCst) {
            exit_now(ErrorCategory::Interrupted);
        }
        cancel.cancel();
        write_stderr("\ninterrupted: saving progress and stopping; interrupt again to stop at once\n");
    })
    .map_err(|error| Error::internal(format!("cannot install a signal handler: {error}")))
}

/// Interrupts the running statement of a shell at a signal, and ends the process if none runs or it does not stop.
///
/// # Errors
/// The signal handler cannot be installed.
pub(super) fn interrupt_on_signal(statement: StatementInterrupt) -> Result<()> {
    ctrlc::set_handler(move || {
        if !statement.interrupt() {
            exit_now(ErrorCategory::Interrupted);
        }
    })
    .map_err(|error| Error::internal(format!("cannot install a signal handler: {error}")))
}

/// Ends this process at once with the exit code of a failed stage, when the other ranks no longer need it.
pub(super) fn exit_as_failed() {
    exit_now(ErrorCategory::Stage);
}

/// Ends the process at once. `std::process::exit` would run libtorch's destructors while its threads still work, and
/// crash.
#[expect(unsafe_code, reason = "the standard library has no exit without exit handlers")]
fn exit_now(kind: ErrorCategory) -> ! {
    unsafe extern "C" {
        safe fn _exit(code: std::ffi::c_int) -> !;
    }
    _exit(kind.exit_code().into())
}
