//! Clock that goes on while the machine is suspended, for leases: their objects age on the server meanwhile.

#[cfg(test)]
use std::sync::Arc;
use std::sync::OnceLock;
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Clock of the leases of a process.
#[derive(Debug, Clone, Default)]
pub(super) enum LeaseClock {
    /// Time since the machine was started.
    #[default]
    Machine,
    /// Seconds that a test sets.
    #[cfg(test)]
    Set(Arc<AtomicU64>),
}

impl LeaseClock {
    /// Time now. Only differences mean something.
    pub(super) fn now(&self) -> Duration {
        match self {
            Self::Machine => since_boot(),
            #[cfg(test)]
            Self::Set(seconds) => Duration::from_secs(seconds.load(Ordering::SeqCst)),
        }
    }

    /// Time since a time of this clock.
    pub(super) fn elapsed_since(&self, time: Duration) -> Duration {
        self.now().saturating_sub(time)
    }
}

/// Time since the machine was started. [`Instant`] stands still while a machine is suspended on Linux.
fn since_boot() -> Duration {
    let uptime = std::fs::read_to_string("/proc/uptime").ok();
    uptime.as_deref().and_then(parse_uptime).unwrap_or_else(since_start)
}

/// First number of `/proc/uptime`: seconds, suspended ones included.
fn parse_uptime(content: &str) -> Option<Duration> {
    let seconds: f64 = content.split_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Time since the first call, where there is no `/proc`.
#[expect(clippy::disallowed_methods, reason = "leases expire after a time")]
fn since_start() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn uptime_is_in_seconds_with_decimals() {
        assert_eq!(parse_uptime("350735.47 234388.90\n"), Some(Duration::from_millis(350_735_470)));
        for other in ["", "x 1", "-1 2", "NaN 1"] {
            assert_eq!(parse_uptime(other), None, "{other}");
        }
        let before = since_boot();
        std::thread::sleep(Duration::from_millis(30));
        assert!((20..5_000).contains(&(since_boot().saturating_sub(before)).as_millis()));
    }

    /// In a time namespace a machine was started earlier by 1,000 seconds, and [`Instant`] is as outside, as after a
    /// suspension of that time.
    #[test]
    fn suspended_time_counts() {
        const CHILD: &str = "PAIRLOOM_TEST_BOOT_CLOCK";
        if std::env::var_os(CHILD).is_some() {
            println!("since boot: {}", since_boot().as_secs_f64());
            return;
        }
        let test = format!("{}::suspended_time_counts", module_path!().split_once("::").unwrap().1);
        let mut unshare = Command::new("unshare");
        unshare.args(["--map-root-user", "--time", "--boottime", "1000"]).arg(std::env::current_exe().unwrap());
        let before = since_boot();
        let output = unshare.args(["--exact", &test, "--nocapture"]).env(CHILD, "1").output();
        let after = since_boot();
        let output = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let Some((_, inside)) = output.split_once("since boot: ") else {
            test_data::impossible("no time namespace can be made here");
            return;
        };
        let inside: f64 = inside.split_whitespace().next().unwrap().parse().unwrap();
        let (earliest, latest) = (before.as_secs_f64() + 999.9, after.as_secs_f64() + 1000.1);
        assert!((earliest..latest).contains(&inside), "{earliest} {inside} {latest}");
    }
}
