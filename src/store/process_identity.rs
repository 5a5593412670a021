//! Identity of this process, for leases on objects of a store at a URL, and their clock. It goes on while the machine is
//! suspended: the objects age on the server meanwhile.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::lock::TemporaryLock;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::random_bytes;
use pairloom_storage::files::boot_id;

#[cfg(test)]
use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};

/// Default time between two heartbeats of a lease.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// Default time without a heartbeat after which a lease has expired.
const LEASE_TIMEOUT: Duration = Duration::from_mins(1);

/// Identity of a process that uses a store at a URL, and the timing of its leases.
#[derive(Debug, Clone)]
pub struct ProcessIdentity {
    /// Folder with a lock for each lease of this user on this machine; `None` if no such folder can be written.
    folder: Option<PathBuf>,
    /// Identifier of the machine, equal exactly for processes that share the lock folder.
    pub(super) machine: String,
    pub(super) heartbeat_interval: Duration,
    pub(super) lease_timeout: Duration,
    pub(super) clock: LeaseClock,
}

impl ProcessIdentity {
    /// The identity of this process, with `folder` for locks. Without such a folder, or if it cannot be written, leases
    /// of a killed process expire after a minute; with it, other processes of this machine take them over at once.
    #[must_use]
    pub fn new(folder: Option<&Path>) -> Self {
        let shared = folder.and_then(|folder| Some((folder.to_owned(), machine_id(folder)?)));
        let (folder, machine) = match shared {
            Some((folder, machine)) => (Some(folder), machine),
            None => (None, random_token()),
        };
        let clock = LeaseClock::default();
        Self { folder, machine, heartbeat_interval: HEARTBEAT_INTERVAL, lease_timeout: LEASE_TIMEOUT, clock }
    }

    /// The same identity with other times, for tests.
    #[must_use]
    pub fn with_times(self, heartbeat_interval: Duration, lease_timeout: Duration) -> Self {
        Self { heartbeat_interval, lease_timeout, ..self }
    }

    /// The same identity with another clock, for tests.
    #[cfg(test)]
    pub(super) fn with_clock(self, clock: LeaseClock) -> Self {
        Self { clock, ..self }
    }

    /// Takes the lock of the lease with this `token` on this machine; `None` if its holder is alive. Without a folder
    /// for locks, returns a placeholder.
    pub(super) fn lock(&self, token: &str) -> Result<Option<TemporaryLock>> {
        let Some(folder) = &self.folder else { return Ok(Some(TemporaryLock::none())) };
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Error::data(format!("`{token}` is not the token of a lease, expected hexadecimal digits")));
        }
        // The user may empty the cache folder at any time.
        fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, &error))?;
        TemporaryLock::try_lock(&folder.join(token))
    }

    /// Returns true if this process can check the locks of lease holders on `machine`.
    pub(super) fn shares_locks_with(&self, machine: &str) -> bool {
        self.folder.is_some() && self.machine == machine
    }
}

/// Random unique token.
pub(super) fn random_token() -> String {
    let noise = random_bytes::<16>().unwrap_or_default();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&noise).update(&std::process::id().to_le_bytes());
    hasher.update(&jiff::Timestamp::now().as_nanosecond().to_le_bytes());
    hasher.finalize().to_hex()[..16].to_owned()
}

/// Identifier of the lock folder and the running system. Both are needed: machines that share a network folder may not
/// see each other's locks in it, and containers on one machine have different lock folders.
fn machine_id(folder: &Path) -> Option<String> {
    fs::create_dir_all(folder).ok()?;
    let path = folder.join("machine");
    if !path.exists() {
        let new = folder.join(format!("machine.{}", random_token()));
        fs::write(&new, random_token()).ok()?;
        // Fails if another process was faster.
        let _ = fs::hard_link(&new, &path);
        let _ = fs::remove_file(&new);
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(&fs::read(&path).ok()?);
    hasher.update(boot_id()?.as_bytes());
    Some(hasher.finalize().to_hex()[..16].to_owned())
}

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
    let uptime = fs::read_to_string("/proc/uptime").ok();
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
