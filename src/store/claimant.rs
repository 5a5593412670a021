//! Who claims: this process, as processes of the same machine and of others see it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::store::lock::Passing;

/// Pause between two signs of life of a holder.
const BEAT: Duration = Duration::from_secs(10);
/// Time without a sign of life after which a holder counts as dead.
const DEAD: Duration = Duration::from_mins(1);

/// A process that may claim something of a store at a URL.
#[derive(Debug, Clone)]
pub struct Claimant {
    /// Locks of the processes of this user on this machine; none where nothing can be written.
    folder: Option<PathBuf>,
    /// The same for all that share these locks, and for nobody else.
    pub(super) machine: String,
    pub(super) beat: Duration,
    pub(super) dead: Duration,
}

impl Claimant {
    /// A process whose user has `folder` for locks. Without one, or if it cannot be written, what a killed process held
    /// is free after a minute only.
    #[must_use]
    pub fn new(folder: Option<&Path>) -> Self {
        let shared = folder.and_then(|folder| Some((folder.to_owned(), identity(folder)?)));
        let (folder, machine) = match shared {
            Some((folder, machine)) => (Some(folder), machine),
            None => (None, token()),
        };
        Self { folder, machine, beat: BEAT, dead: DEAD }
    }

    /// The same with other times: for tests.
    #[must_use]
    pub fn with_times(self, beat: Duration, dead: Duration) -> Self {
        Self { beat, dead, ..self }
    }

    /// The lock of the holder `token` on this machine; `None` if it lives. There is nothing to lock where there is no
    /// folder for locks.
    pub(super) fn lock(&self, token: &str) -> Result<Option<Passing>> {
        let Some(folder) = &self.folder else { return Ok(Some(Passing::nothing())) };
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Error::data(format!("`{token}` is no name of a holder, wanted hexadecimal digits")));
        }
        // Somebody may tidy up the caches of a user at any time.
        fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, &error))?;
        Passing::take(&folder.join(token))
    }

    /// Whether a holder of `machine` has a lock that this process can look at.
    pub(super) fn shares_locks_with(&self, machine: &str) -> bool {
        self.folder.is_some() && self.machine == machine
    }
}

/// A name that nobody else has.
pub(super) fn token() -> String {
    let noise = fs::read("/proc/sys/kernel/random/uuid").unwrap_or_default();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&noise).update(&std::process::id().to_le_bytes());
    hasher.update(&jiff::Timestamp::now().as_nanosecond().to_le_bytes());
    hasher.finalize().to_hex()[..16].to_owned()
}

/// What names the folder of locks and the running system together: a folder that two machines share has locks that each
/// of them may see alone, and two containers on one machine have folders of their own.
fn identity(folder: &Path) -> Option<String> {
    fs::create_dir_all(folder).ok()?;
    let path = folder.join("machine");
    if !path.exists() {
        let new = folder.join(format!("machine.{}", token()));
        fs::write(&new, token()).ok()?;
        // Fails where another process was faster.
        let _ = fs::hard_link(&new, &path);
        let _ = fs::remove_file(&new);
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(&fs::read(&path).ok()?);
    hasher.update(&fs::read("/proc/sys/kernel/random/boot_id").ok()?);
    Some(hasher.finalize().to_hex()[..16].to_owned())
}
