//! Ctrl-C, SIGTERM and SIGHUP: the first signal cancels the run, the second ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::channel::oneshot;

use super::progress::ProgressDisplay;
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_base::runtime::CancelToken;

/// Time after which stages that have not stopped are named, again and again.
const PATIENCE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// Sets `cancel` and calls `notify` at the first signal, and ends the process at the second.
pub(super) fn cancel_on_signal(cancel: &CancelToken, notify: impl Fn() + Send + 'static) -> Result<()> {
    let cancel = cancel.clone();
    let is_interrupted = AtomicBool::new(false);
    set_handler(move || {
        if is_interrupted.swap(true, Ordering::SeqCst) {
            exit_now(ErrorCategory::Interrupted);
        }
        cancel.cancel();
        notify();
    })
}

/// Installs the handler of all signals. SIGHUP stays ignored if it was, so that a run under `nohup` goes on when its
/// terminal closes.
fn set_handler(handler: impl FnMut() + Send + 'static) -> Result<()> {
    const SIGHUP: std::ffi::c_int = 1;
    let ignores_hangup = std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_hangup(&status));
    ctrlc::set_handler(handler)
        .map_err(|error| Error::internal(format!("cannot install a signal handler: {error}")))?;
    if ignores_hangup {
        // The crate of the handler takes it in any case.
        ignore_signal(SIGHUP);
    }
    Ok(())
}

/// Makes a write beyond the limit of the size of files (`ulimit -f`) an error, as one on a full disk is. The signal SIGXFSZ
/// would end the process without a word.
pub(super) fn ignore_file_size_signal() {
    const SIGXFSZ: std::ffi::c_int = 25;
    ignore_signal(SIGXFSZ);
}

#[expect(unsafe_code, reason = "the standard library cannot ignore a signal")]
fn ignore_signal(number: std::ffi::c_int) {
    unsafe extern "C" {
        safe fn signal(number: std::ffi::c_int, handler: usize) -> usize;
    }
    const SIG_IGN: usize = 1;
    signal(number, SIG_IGN);
}

/// True if the set of ignored signals of a process, of which SIGHUP is the first, has it.
fn ignores_hangup(status: &str) -> bool {
    let signals = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    signals.and_then(|signals| u64::from_str_radix(signals.trim(), 16).ok()).is_some_and(|signals| signals & 1 == 1)
}

/// Calls `interrupt` at a signal, and ends the process if it returns false: nothing runs, or it does not stop.
pub fn interrupt_on_signal(interrupt: impl Fn() -> bool + Send + 'static) -> Result<()> {
    set_handler(move || {
        if !interrupt() {
            exit_now(ErrorCategory::Interrupted);
        }
    })
}

/// Receiver that has a value after a signal. A second signal ends the process.
pub fn stop_on_signal() -> Result<oneshot::Receiver<()>> {
    let (stop, stopped) = oneshot::channel();
    let stop = Mutex::new(Some(stop));
    interrupt_on_signal(move || {
        let stop = stop.lock().ok().and_then(|mut stop| stop.take());
        stop.is_some_and(|stop| stop.send(()).is_ok())
    })?;
    Ok(stopped)
}

/// Announces above the bars that the run stops. A thread names the stages that have not stopped after a second.
pub(super) fn announce_interrupt(progress: &Arc<ProgressDisplay>) {
    progress.announce("interrupted: stopping; finished work is kept. Interrupt again to stop at once");
    let progress = Arc::clone(progress);
    let watch = move || {
        let mut pauses = PATIENCE.into_iter();
        loop {
            std::thread::sleep(pauses.next().unwrap_or(PATIENCE[1]));
            match progress.running_stages() {
                None => return,
                Some(stages) if stages.is_empty() => {}
                Some(stages) => progress.announce(&stopping_line(&stages)),
            }
        }
    };
    // Without the thread the run stops all the same.
    let _ = std::thread::Builder::new().name("interrupt".to_owned()).spawn(watch);
}

/// Line that names the stages that have not stopped.
fn stopping_line(stages: &[String]) -> String {
    let ends = if stages.len() == 1 { "finishes its" } else { "finish their" };
    format!("stopping: {} {ends} current step. Interrupt again to stop at once", stages.join(", "))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read() {
        assert!(ignores_hangup("Name:\ta\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000000\n"));
        assert!(!ignores_hangup("SigIgn:\t0000000000001000\nSigCgt:\t0000000000000001\n") && !ignores_hangup(""));
    }

    #[test]
    fn stages_that_have_not_stopped_are_named() {
        let one = ["`fit` (at 120 of 3,600 steps)".to_owned()];
        assert!(stopping_line(&one).starts_with("stopping: `fit` (at 120 of 3,600 steps) finishes its current step."));
        let two = ["`fit`".to_owned(), "`cnn`".to_owned()];
        assert!(stopping_line(&two).starts_with("stopping: `fit`, `cnn` finish their current step."));
    }
}
