//! Pace of progress lines where no bars are drawn.

use std::time::{Duration, Instant};

/// Time after which a stage that makes progress prints a line.
const INTERVAL: Duration = Duration::from_secs(30);
/// Minimum time between two lines of a stage.
const MINIMUM: Duration = Duration::from_secs(5);

/// Pace of the progress lines of a stage: one every 30 s, or at each tenth of the work, at most one in 5 s.
#[derive(Debug)]
pub(super) struct LinePace {
    last: Instant,
    tenth: u64,
}

impl LinePace {
    /// A pace after a line that was printed now.
    pub(super) fn start(now: Instant) -> Self {
        Self { last: now, tenth: 0 }
    }

    /// Returns true if a line is due, and counts it as printed. The end has a line of its own.
    pub(super) fn is_due(&mut self, now: Instant, done: u64, total: Option<u64>) -> bool {
        if total == Some(done) {
            return false;
        }
        let tenth = total.and_then(|total| (done.saturating_mul(10)).checked_div(total)).unwrap_or(0);
        let since = now.saturating_duration_since(self.last);
        let due = since >= INTERVAL || (since >= MINIMUM && tenth > self.tenth);
        if due {
            (self.last, self.tenth) = (now, tenth);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_every_half_minute_or_tenth() {
        #[expect(clippy::disallowed_methods, reason = "a fake clock needs a start")]
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        // 1,000 units in 100 s: a line at each tenth, every 10 s, but none at the end.
        let mut pace = LinePace::start(start);
        let printed: Vec<u64> = (1..=100).filter(|&second| pace.is_due(at(second), 10 * second, Some(1000))).collect();
        assert_eq!(printed, [10, 20, 30, 40, 50, 60, 70, 80, 90]);
        // A tenth takes 2 s: at most one line in 5 s.
        let mut pace = LinePace::start(start);
        let printed: Vec<u64> = (1..=20).filter(|&second| pace.is_due(at(second), 50 * second, Some(1000))).collect();
        assert_eq!(printed, [5, 10, 15]);
        // Without a total: every 30 s.
        let mut pace = LinePace::start(start);
        let printed: Vec<u64> = (1..=100).filter(|&second| pace.is_due(at(second), second, None)).collect();
        assert_eq!(printed, [30, 60, 90]);
        // Nothing at all to do.
        assert!(!LinePace::start(start).is_due(at(60), 0, Some(0)));
    }
}
