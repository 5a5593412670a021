//! Progress events of a stage, at a limited rate.

use std::time::{Duration, Instant};

use crate::engine::event::{Event, Observer};
use crate::runtime::Stalls;
use crate::stage::{Progress, Warning};

/// Minimum time between two progress events of a stage.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Sends the progress events of one stage.
pub(super) struct ProgressReporter<'e> {
    observer: &'e Observer<'e>,
    stage: String,
    /// Latest progress, sent or not.
    pub latest: Progress,
    last_progress: Option<Instant>,
    last_stalls: Option<Instant>,
    /// Latest stalls, if not yet sent.
    pending_stalls: Option<Stalls>,
}

impl<'e> ProgressReporter<'e> {
    /// A reporter of `stage`, with progress 0.
    pub fn new(observer: &'e Observer<'e>, stage: String) -> Self {
        Self {
            observer,
            stage,
            latest: Progress { done: 0, total: None },
            last_progress: None,
            last_stalls: None,
            pending_stalls: None,
        }
    }

    /// Reports progress. Sends an event unless the last one is too recent; the end is always sent.
    pub fn report_progress(&mut self, latest: Progress) {
        self.latest = latest;
        if is_due(self.last_progress) || Some(latest.done) == latest.total {
            self.send_progress(None);
        }
    }

    /// Reports that the stage waits for `name`.
    pub fn report_waiting(&mut self, name: &str) {
        self.send_progress(Some(name.to_owned()));
    }

    /// Reports data stalls. If the last event is too recent, keeps them for [`Self::flush_stalls`].
    pub fn report_stalls(&mut self, stalls: Stalls) {
        self.pending_stalls = Some(stalls);
        if is_due(self.last_stalls) {
            self.flush_stalls();
        }
    }

    /// Sends the stalls that were kept back. Called at the end of a stage.
    pub fn flush_stalls(&mut self) {
        if let Some(stalls) = self.pending_stalls.take() {
            self.last_stalls = Some(now());
            (self.observer)(&Event::Loading { stage: self.stage.clone(), stalls });
        }
    }

    /// Reports a warning.
    pub fn report_warning(&self, warning: &Warning) {
        (self.observer)(&Event::Warned { stage: self.stage.clone(), warning: warning.clone() });
    }

    fn send_progress(&mut self, waiting_for: Option<String>) {
        self.last_progress = Some(now());
        let Progress { done, total } = self.latest;
        (self.observer)(&Event::Progress { stage: self.stage.clone(), done, total, waiting_for });
    }
}

fn is_due(last: Option<Instant>) -> bool {
    last.is_none_or(|last| last.elapsed() >= PROGRESS_INTERVAL)
}

/// Current time, for the rate of progress events and for waiting times.
#[expect(
    clippy::disallowed_methods,
    reason = "results do not depend on the rate of progress events, nor on waiting times"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn frequent_stalls_are_kept_back_and_the_last_ones_are_sent_at_the_end() {
        let reported = Mutex::new(Vec::new());
        let observer = |event: &Event| {
            if let Event::Loading { stalls, .. } = event {
                reported.lock().expect("no panic").push(stalls.trainer);
            }
        };
        let mut reporter = ProgressReporter::new(&observer, "fit".to_owned());
        // The last event lies hours in the future, so every further one is too early.
        reporter.last_stalls = Some(now() + Duration::from_secs(10_000));
        for trainer in [1.0, 2.0, 3.0] {
            reporter.report_stalls(Stalls { trainer, ..Stalls::default() });
        }
        assert!(reported.lock().expect("no panic").is_empty());
        reporter.flush_stalls();
        reporter.flush_stalls();
        assert_eq!(*reported.lock().expect("no panic"), [3.0]);
    }
}
