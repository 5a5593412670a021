//! End of stdin, by which another program cancels its request.

use std::io::Read;

/// Calls `stop` on a thread of its own when stdin ends: nobody waits for the answer any more.
pub(super) fn at_end_of_stdin(stop: impl FnOnce() + Send + 'static) {
    let watch = move || {
        // A request has one line, so nothing follows.
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        stop();
    };
    // Without the thread the request runs to its end.
    let _ = std::thread::Builder::new().name("stdin".to_owned()).spawn(watch);
}
