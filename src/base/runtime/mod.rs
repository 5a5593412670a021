//! Run-time facts of a process: its build, threads, device, cancellation, random bytes, the other processes that it works
//! with, files of its user, and time spent waiting for data.

use std::fmt;
use std::ops::AddAssign;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

mod process_group;

pub use process_group::{ClusterUrl, ErrorMessage, MAX_RANKS, ProcessGroup, RemoteTasks, Rendezvous};

/// Build of the program; unset in tests.
static BUILD: OnceLock<&str> = OnceLock::new();

/// Sets the build of this process: a hash of the sources, which the build script of the program computes. The first call
/// counts.
pub fn set_build(build: &'static str) {
    let _ = BUILD.set(build);
}

/// Hash of the sources of this program; `unknown` in a process that set none. Processes that compute parts of one result
/// must have the same.
pub fn build() -> &'static str {
    BUILD.get().copied().unwrap_or("unknown")
}

/// Version and build of this program, for people.
pub fn version_and_build() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| format!("{} (build {})", env!("CARGO_PKG_VERSION"), build()))
}

/// Cancellation token. Cancelling it cancels all its clones and children, for good.
#[derive(Debug, Clone, Default)]
pub struct CancelToken {
    raised: Arc<AtomicBool>,
    parent: Option<Box<CancelToken>>,
}

impl CancelToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A child token. Cancelling this token also cancels the child; cancelling the child does not affect this token.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { raised: Arc::default(), parent: Some(Box::new(self.clone())) }
    }

    /// Cancels the token and its children.
    pub fn cancel(&self) {
        self.raised.store(true, Ordering::SeqCst);
    }

    /// Returns true if the token or one of its parents is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.raised.load(Ordering::SeqCst) || self.parent.as_ref().is_some_and(|parent| parent.is_cancelled())
    }

    /// Fails if the token is cancelled.
    ///
    /// # Errors
    /// [`Error::interrupted`] if the token is cancelled.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::interrupted()) } else { Ok(()) }
    }
}

/// Device that holds the tensors and computes with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Device {
    /// The CPU.
    #[default]
    Cpu,
    /// The CUDA GPU with this index.
    Cuda(usize),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

/// Random bytes of the operating system, for tokens and keys. Results never depend on them.
///
/// # Errors
/// The operating system has none.
pub fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::internal(format!("the operating system gives no random bytes: {error}")))?;
    Ok(bytes)
}

/// `N` random bytes as hexadecimal digits, for tokens and names that no other process has.
pub fn random_hex<const N: usize>() -> Result<String> {
    Ok(random_bytes::<N>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Threads, device and other processes that a stage may use, and the token that cancels it.
#[derive(Debug, Clone)]
pub struct Resources {
    /// Number of threads that the stage may keep busy.
    pub threads: usize,
    /// Device of the tensors.
    pub device: Device,
    /// Cancelled when the run is.
    pub cancel: CancelToken,
    /// Processes of a cluster that compute parts of a stage.
    pub remote: Option<Arc<dyn RemoteTasks>>,
}

/// Wall time of a training in seconds, split into waiting for data and work. The parts add up to the time between the
/// first and the last request for a batch.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Stalls {
    /// Time that the trainer waited for a batch whose shards were being fetched, converted or memory-mapped.
    pub storage: f64,
    /// Time that the trainer waited for a batch that was being assembled: rows copied, images decoded.
    pub decode: f64,
    /// Time that the trainer worked.
    pub trainer: f64,
}

impl AddAssign for Stalls {
    fn add_assign(&mut self, other: Self) {
        self.storage += other.storage;
        self.decode += other.decode;
        self.trainer += other.trainer;
    }
}

impl Stalls {
    /// Total time in seconds.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.storage + self.decode + self.trainer
    }
}

/// File that a query reads by a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// Name of the table.
    pub name: String,
    /// Path of the file. Its extension is the format.
    pub path: PathBuf,
}

impl std::str::FromStr for NamedFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, path)) if !path.is_empty() && is_name(name) => {
                Ok(Self { name: name.to_owned(), path: PathBuf::from(path) })
            }
            Some((name, path)) if !path.is_empty() => {
                Err(format!("the name `{name}`, expected letters, digits and underscores, not a digit first"))
            }
            _ => Err("expected NAME=FILE, for example `mine=scores.csv`".to_owned()),
        }
    }
}

fn is_name(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.chars().next().is_some_and(|first| !first.is_ascii_digit())
}
