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
    pub latest: Progress,
    last: Option<Instant>,
    last_stalls: Option<Instant>,
    /// Stalls that were held back.
    held: Option<Stalls>,
}

impl<'e> Meter<'e> {
    /// The voice of `stage`, which has done nothing yet.
    pub fn new(observer: &'e Observer<'e>, stage: String) -> Self {
        Self { observer, stage, latest: Progress { done: 0, total: None }, last: None, last_stalls: None, held: None }
    }

    /// Tells of progress, unless it did a moment ago.
    pub fn at(&mut self, latest: Progress) {
        self.latest = latest;
        if due(self.last) || Some(latest.done) == latest.total {
            self.tell(None);
        }
    }

    /// Tells what the stage waits for.
    pub fn waits(&mut self, name: &str) {
        self.tell(Some(name.to_owned()));
    }

    /// Tells of stalls; holds them back if it told of some a moment ago.
    pub fn stalls(&mut self, stalls: Stalls) {
        self.held = Some(stalls);
        if due(self.last_stalls) {
            self.tell_stalls();
        }
    }

    /// Tells of the stalls that were held back: at the end of a stage everything is told.
    pub fn tell_stalls(&mut self) {
        if let Some(stalls) = self.held.take() {
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
        let Progress { done, total } = self.latest;
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn stalls_that_come_at_once_are_held_back_and_the_last_ones_are_told_at_the_end() {
        let told = Mutex::new(Vec::new());
        let observer = |event: &Event| {
            if let Event::Loading { stalls, .. } = event {
                told.lock().expect("no panic").push(stalls.trainer);
            }
        };
        let mut meter = Meter::new(&observer, "fit".to_owned());
        // A clock that is hours ahead: whatever comes now is too early.
        meter.last_stalls = Some(now() + Duration::from_secs(10_000));
        for trainer in [1.0, 2.0, 3.0] {
            meter.stalls(Stalls { trainer, ..Stalls::default() });
        }
        assert!(told.lock().expect("no panic").is_empty());
        meter.tell_stalls();
        meter.tell_stalls();
        assert_eq!(*told.lock().expect("no panic"), [3.0]);
    }
}
