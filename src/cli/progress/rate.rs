//! Rate of a stage in the recent past, over the time that it works.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Span of working time that a rate covers.
const WINDOW: Duration = Duration::from_secs(20);

/// Meter of the rate of a stage. Time that the stage waits does not count.
///
/// An interval between two reports counts as waiting if it began with a wait and nothing was done in it. A stage of
/// several threads works on while one of them waits for input.
#[derive(Debug)]
pub(super) struct RateMeter {
    /// Working time and units done, at the start and after each progress.
    samples: VecDeque<(Duration, u64)>,
    worked: Duration,
    last: Instant,
    is_waiting: bool,
    done: u64,
}

impl RateMeter {
    /// A meter that starts now, with `done` units done before.
    pub(super) fn start(now: Instant, done: u64, is_waiting: bool) -> Self {
        Self { samples: VecDeque::from([(Duration::ZERO, done)]), worked: Duration::ZERO, last: now, is_waiting, done }
    }

    /// Records a report of progress.
    pub(super) fn record(&mut self, now: Instant, done: u64, is_waiting: bool) {
        if !self.is_waiting || done > self.done {
            self.worked += now.saturating_duration_since(self.last);
        }
        if done < self.done {
            self.samples.clear();
        }
        if done != self.done {
            self.samples.push_back((self.worked, done));
        }
        // The oldest sample that is kept lies just outside of the window.
        while self.samples.get(1).is_some_and(|(worked, _)| self.worked.saturating_sub(*worked) >= WINDOW)
            && self.samples.len() > 2
        {
            self.samples.pop_front();
        }
        (self.last, self.is_waiting, self.done) = (now, is_waiting, done);
    }

    /// Units done in a second of work; `None` before the first progress.
    #[expect(clippy::cast_precision_loss, reason = "a rate for display")]
    pub(super) fn per_second(&self) -> Option<f64> {
        let ((before, from), (after, to)) = (self.samples.front()?, self.samples.back()?);
        let seconds = after.saturating_sub(*before).as_secs_f64();
        (to > from && seconds > 0.0).then(|| (to - from) as f64 / seconds)
    }

    /// Seconds of work until `total` units are done.
    #[expect(clippy::cast_precision_loss, reason = "a time for display")]
    pub(super) fn seconds_left(&self, total: u64) -> Option<f64> {
        Some(total.checked_sub(self.done)? as f64 / self.per_second()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::testing::clock;

    fn rate(meter: &RateMeter) -> f64 {
        meter.per_second().expect("a rate")
    }

    #[test]
    fn time_before_the_input_arrives_does_not_count() {
        let at = clock();
        // Waits for 360 s, then does 10 units in 2 s: 5/s, and 80 units are left for 16 s.
        let mut meter = RateMeter::start(at(0), 0, true);
        assert_eq!(meter.per_second(), None);
        meter.record(at(360), 0, false);
        meter.record(at(361), 4, false);
        meter.record(at(362), 10, false);
        assert!((rate(&meter) - 5.0).abs() < 1e-9, "{meter:?}");
        assert_eq!(meter.seconds_left(90), Some(16.0));
        assert_eq!(meter.seconds_left(10), Some(0.0));
        assert_eq!(meter.seconds_left(3), None, "more is done than the total");
    }

    #[test]
    fn a_wait_in_the_middle_does_not_count_and_work_beside_a_wait_does() {
        let at = clock();
        let mut meter = RateMeter::start(at(0), 0, false);
        meter.record(at(1), 10, true);
        // Nothing is done between 1 s and 101 s.
        meter.record(at(101), 10, false);
        meter.record(at(102), 20, true);
        // One thread waits from 102 s on, another one finishes 10 units at 103 s.
        meter.record(at(103), 30, false);
        assert!((rate(&meter) - 10.0).abs() < 1e-9, "{meter:?}");
    }

    #[test]
    fn the_rate_is_that_of_the_recent_past() {
        let at = clock();
        let mut meter = RateMeter::start(at(0), 0, false);
        // One unit a second for 100 s, then four: after 20 s and one sample more, only these count.
        let mut done = 0;
        for second in 1..=121 {
            done += if second <= 100 { 1 } else { 4 };
            meter.record(at(second), done, false);
        }
        assert!((rate(&meter) - 4.0).abs() < 1e-9, "{meter:?}");
        // Slow steps: the last two samples are kept, however old.
        meter.record(at(221), done + 1, false);
        meter.record(at(321), done + 2, false);
        assert!((rate(&meter) - 0.01).abs() < 1e-9, "{meter:?}");
        // A stage that starts over is measured anew.
        meter.record(at(322), 0, false);
        assert_eq!(meter.per_second(), None);
    }
}
