//! Progress of a stage, told at a pace that people can read.

use std::time::{Duration, Instant};

use crate::engine::event::{Event, Observer};
use crate::runtime::Stalls;
use crate::stage::{Progress, Warning};

/// Time between two progress events of a stage.
const PAUSE: Duration = Duration::from_millis(100);

/// The voice of one stage.
pub(super) struct Meter<'e> {
    observer: &'e Observer<'e>,
    stage: String,
    /// The progress last told or held back.
    pub now: Progress,
    last: Option<Instant>,
    last_stalls: Option<Instant>,
}

impl<'e> Meter<'e> {
    /// The voice of `stage`, which has done nothing yet.
    pub fn new(observer: &'e Observer<'e>, stage: String) -> Self {
        Self { observer, stage, now: Progress { done: 0, total: None }, last: None, last_stalls: None }
    }

    /// Tells of progress, unless it did a moment ago.
    pub fn at(&mut self, now: Progress) {
        self.now = now;
        if due(self.last) || Some(now.done) == now.total {
            self.tell(None);
        }
    }

    /// Tells what the stage waits for.
    pub fn waits(&mut self, name: &str) {
        self.tell(Some(name.to_owned()));
    }

    /// Tells of stalls, unless it did a moment ago.
    pub fn stalls(&mut self, stalls: Stalls) {
        if due(self.last_stalls) {
            self.last_stalls = Some(now());
            (self.observer)(&Event::Loading { stage: self.stage.clone(), stalls });
        }
    }

    /// Tells of a warning.
    pub fn warn(&self, warning: &Warning) {
        (self.observer)(&Event::Warned { stage: self.stage.clone(), warning: warning.clone() });
    }

    fn tell(&mut self, waiting_for: Option<String>) {
        self.last = Some(now());
        let Progress { done, total } = self.now;
        (self.observer)(&Event::Progress { stage: self.stage.clone(), done, total, waiting_for });
    }
}

fn due(last: Option<Instant>) -> bool {
    last.is_none_or(|last| last.elapsed() >= PAUSE)
}

/// The time, for the pace of progress and for how long a stage waits.
#[expect(
    clippy::disallowed_methods,
    reason = "progress is shown at a pace that people can read, and waiting is not work"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}
