//! Ctrl-C and SIGTERM: the first asks the run to stop, the second stops it.

use std::sync::atomic::{AtomicBool, Ordering};

use super::output::tell;
use crate::engine::cancel::Cancel;
use crate::error::{Error, Kind, Result};

/// Raises `cancel` at the first signal.
///
/// # Errors
/// The system refuses to tell of signals.
pub(super) fn watch(cancel: &Cancel) -> Result<()> {
    let cancel = cancel.clone();
    let asked = AtomicBool::new(false);
    ctrlc::set_handler(move || {
        if asked.swap(true, Ordering::SeqCst) {
            stop_now();
        }
        cancel.cancel();
        tell("\ninterrupted: stopping where it can go on; once more stops at once\n");
    })
    .map_err(|error| Error::internal(format!("cannot watch for signals: {error}")))
}

#[expect(clippy::exit, reason = "the second Ctrl-C means now, and a killed run can be resumed too")]
fn stop_now() -> ! {
    std::process::exit(i32::from(Kind::Interrupted.exit_code()))
}
