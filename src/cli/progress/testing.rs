//! Fake clock for tests of rates and activities.

use std::time::{Duration, Instant};

/// Instants at these seconds after a start.
pub(super) fn clock() -> impl Fn(u64) -> Instant {
    #[expect(clippy::disallowed_methods, reason = "a fake clock needs a start")]
    let start = Instant::now();
    move |seconds| start + Duration::from_secs(seconds)
}
