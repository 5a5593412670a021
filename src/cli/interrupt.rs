//! Ctrl-C and SIGTERM: the first asks the run to stop, the second stops it.

use std::sync::atomic::{AtomicBool, Ordering};

use super::output::tell;
use crate::error::{Error, Kind, Result};
use crate::runtime::Cancel;

/// Raises `cancel` at the first signal.
///
/// # Errors
/// The system refuses to tell of signals.
pub(super) fn watch(cancel: &Cancel) -> Result<()> {
    let cancel = cancel.clone();
    let asked = AtomicBool::new(false);
    ctrlc::set_handler(move || {
        if asked.swap(true, Ordering::SeqCst) {
            leave(Kind::Interrupted);
        }
        cancel.cancel();
        tell("\ninterrupted: stopping where it can go on; once more stops at once\n");
    })
    .map_err(|error| Error::internal(format!("cannot watch for signals: {error}")))
}

/// Ends a process at once that another one does not need any more.
pub(super) fn give_up() {
    leave(Kind::Stage);
}

/// Ends the process at once. `std::process::exit` would run the destructors of libtorch while its threads still work,
/// and crash.
#[expect(unsafe_code, reason = "the standard library has no exit that runs no handlers")]
fn leave(kind: Kind) -> ! {
    unsafe extern "C" {
        safe fn _exit(code: std::ffi::c_int) -> !;
    }
    _exit(kind.exit_code().into())
}
