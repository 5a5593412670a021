//! Child process `pairloom-sql` that answers a request.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::siblings::Sibling;
use super::sql_requests::{ANSWER_REQUEST, SqlAnswer, SqlRequest};
use pairloom_base::error::{Error, Result};

/// Pause between two reports while a child works.
const PAUSE: Duration = Duration::from_millis(200);
/// Time for a child to stop after it was cancelled: it has five seconds to cancel a job of a cluster.
const CANCEL_TIME: Duration = Duration::from_secs(7);

/// Sends a request to a child, and returns the value of its answer. Calls `report` often; after an error of it, the request
/// is cancelled.
///
/// # Errors
/// The first error of `report`, or that of the answer; the child is not there or gives no answer.
pub(super) fn ask<T: DeserializeOwned>(
    sibling: Sibling,
    request: &SqlRequest,
    report: &mut dyn FnMut() -> Result<()>,
) -> Result<T> {
    let mut line = serde_json::to_vec(request).map_err(|error| Error::internal(error.to_string()))?;
    line.push(b'\n');
    let mut command = sibling.command()?;
    // In a group of its own, so that Ctrl-C does not end it before it has cancelled what it began.
    command.arg(ANSWER_REQUEST).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let shown = command.get_program().display().to_string();
    let failed = |doing: &str, error: &std::io::Error| Error::stage(format!("cannot {doing} `{shown}`: {error}"));
    let mut running = Running::new(command.spawn().map_err(|error| failed("start", &error))?);
    // A child that has ended already tells more by its answer.
    if let Some(request) = &mut running.request {
        let _ = request.write_all(&line).and_then(|()| request.flush());
    }
    let answered = running.answer().map_err(|error| failed("read", &error))?;
    loop {
        match answered.recv_timeout(PAUSE) {
            Ok(answer) => {
                let answer = answer.map_err(|error| failed("read", &error))?;
                let ended = running.child.wait().map_err(|error| failed("wait for", &error))?;
                let answer = serde_json::from_slice::<SqlAnswer<T>>(&answer);
                let answer =
                    answer.map_err(|_| Error::stage(format!("`{shown}` gave no answer: it ended with {ended}")));
                return answer?.map_err(Error::from);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::internal(format!("the thread that reads `{shown}` panicked")));
            }
        }
        if let Err(error) = report() {
            running.cancel();
            let _ = answered.recv_timeout(CANCEL_TIME);
            return Err(error);
        }
    }
}

/// Child that works. Dropping it cancels its request, and kills it if it does not end.
struct Running {
    child: Child,
    /// Open while the child may work.
    request: Option<ChildStdin>,
}

impl Running {
    fn new(mut child: Child) -> Self {
        let request = child.stdin.take();
        Self { child, request }
    }

    /// Starts a thread that reads the answer.
    fn answer(&mut self) -> std::io::Result<Receiver<std::io::Result<Vec<u8>>>> {
        let (sender, receiver) = sync_channel(1);
        let Some(mut out) = self.child.stdout.take() else { return Err(std::io::ErrorKind::BrokenPipe.into()) };
        std::thread::Builder::new().name("answer".to_owned()).spawn(move || {
            let mut answer = Vec::new();
            let read = out.read_to_end(&mut answer).map(|_| answer);
            // Nobody waits any more.
            let _ = sender.send(read);
        })?;
        Ok(receiver)
    }

    fn cancel(&mut self) {
        self.request = None;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel();
        let end = Instant::now() + CANCEL_TIME;
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() > end {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
