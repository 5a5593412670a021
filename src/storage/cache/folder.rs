//! Folder of a shard cache: layout, ownership, lock, and the last use of each shard.
//!
//! The file [`USED`] of a shard is written whenever the shard is opened. Its modification time is the time of the last use,
//! and its content names the boot of the machine in which the shard was last found whole. Shards are not synced to the
//! disk. After a power cut, the files of a shard may have their names and lengths without their content, so a shard from
//! before the last boot is read whole once. Machines that share a cache have different boots: after each change between
//! them, a shard is read whole again.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::files::boot_id;
use pairloom_base::error::{Error, Result};

/// Polling interval for a lock that another process or thread holds.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// `EMFILE` of Linux and macOS: the process has too many open files.
const EMFILE: i32 = 24;

/// Folder of a shard cache.
#[derive(Debug)]
pub(super) struct CacheFolder {
    /// Path of the folder.
    path: PathBuf,
    /// Subfolder for this version of the layout.
    root: PathBuf,
    /// Identity of the lock file when the cache was opened. Another file at its path means that the cache was replaced.
    lock: FileIdentity,
    /// Kept open, so that the inode cannot be reused.
    _lock: File,
}

/// Identity of a file, independent of its name. The inode of a file that was removed and closed may be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    pub fn of(file: &File) -> io::Result<Self> {
        file.metadata().map(|found| Self { device: found.dev(), inode: found.ino() })
    }

    /// Identity of the file at `path`; `None` if there is none.
    pub fn at(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::metadata(path) {
            Ok(found) => Ok(Some(Self { device: found.dev(), inode: found.ino() })),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl CacheFolder {
    /// Opens the cache folder at `named`. A missing folder is created, accessible to this user only.
    pub fn open(named: &Path) -> Result<Self> {
        let elsewhere = "choose another folder with `--cache`";
        let failed = |path: &Path, error: &io::Error| Error::io("make the cache folder", path, error).hint(elsewhere);
        let make = |path: &Path| {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
            made.map_err(|error| failed(path, &error))
        };
        make(named)?;
        let named = named.canonicalize().map_err(|error| failed(named, &error))?;
        let root = named.join("v1");
        let user = effective_user_id(&named).map_err(|error| failed(&named, &error))?;
        for path in [&named, &root] {
            if path == &root {
                make(path)?;
            }
            let owner = path.metadata().map_err(|error| failed(path, &error))?.uid();
            if owner != user {
                let message = format!("cache folder belongs to user {owner}, expected {user}: `{}`", path.display());
                return Err(Error::data(message).hint(elsewhere));
            }
        }
        for name in ["shards", "tmp", "gone"] {
            make(&root.join(name))?;
        }
        let path = root.join("lock");
        let file = open_private(&path, true).map_err(|error| failed(&path, &error))?;
        let lock = FileIdentity::of(&file).map_err(|error| failed(&path, &error))?;
        Ok(Self { path: named, root, lock, _lock: file })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Folder of the shard of a key.
    pub fn shard(&self, key: &str) -> PathBuf {
        self.shards().join(key)
    }

    pub fn shards(&self) -> PathBuf {
        self.root.join("shards")
    }

    pub fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    pub fn removed_shards(&self) -> PathBuf {
        self.root.join("gone")
    }

    /// Checks that the folder has not been removed or replaced since it was opened.
    ///
    /// # Errors
    /// The folder was removed or replaced.
    pub fn check_not_removed(&self) -> Result<()> {
        match FileIdentity::at(&self.root.join("lock")) {
            Ok(Some(found)) if found == self.lock => Ok(()),
            Ok(_) => Err(self.removed_error()),
            Err(error) => Err(Error::io("look for", &self.root.join("lock"), &error)),
        }
    }

    /// Error for a folder that was removed while in use.
    pub fn removed_error(&self) -> Error {
        Error::data(format!("the shard cache was removed while it was in use: `{}`", self.path.display()))
            .hint("run the same command again: missing shards are built again")
    }

    /// Error of a failed file operation in the cache: a full disk, missing permissions, too many open files, or a
    /// removed folder.
    pub fn io_error(&self, doing: &str, path: &Path, error: &io::Error) -> Error {
        if error.kind() == ErrorKind::NotFound {
            return self.removed_error();
        }
        let failed = Error::io(doing, path, error);
        if error.raw_os_error() == Some(EMFILE) {
            return failed.hint("each open shard is an open file: raise `ulimit -n`, or shuffle in smaller windows");
        }
        failed
    }

    /// Waits for the exclusive lock of the cache. Dropping the returned file releases the lock.
    ///
    /// # Errors
    /// `cancel` returned an error, or the folder was removed.
    pub fn lock_exclusive(&self, cancel: &dyn Fn() -> Result<()>) -> Result<File> {
        loop {
            if let Some(lock) = self.try_lock_exclusive()? {
                return Ok(lock);
            }
            self.sleep(cancel)?;
        }
    }

    /// Takes the exclusive lock of the cache; `None` if it is held elsewhere.
    pub fn try_lock_exclusive(&self) -> Result<Option<File>> {
        let path = self.root.join("lock");
        let file = open_private(&path, false).map_err(|error| self.io_error("open the lock", &path, &error))?;
        let locked = self.is_lock_taken(&path, file.try_lock())?;
        self.check_not_removed()?;
        Ok(locked.then_some(file))
    }

    /// Sleeps for one polling interval.
    pub fn sleep(&self, cancel: &dyn Fn() -> Result<()>) -> Result<()> {
        cancel()?;
        self.check_not_removed()?;
        std::thread::sleep(POLL_INTERVAL);
        Ok(())
    }

    /// Returns true if a lock was taken, and false if it is held elsewhere.
    pub fn is_lock_taken(&self, path: &Path, got: Result<(), TryLockError>) -> Result<bool> {
        match got {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(self
                .io_error("lock", path, &error)
                .hint("some network file systems have no file locks: choose a local folder with `--cache`")),
        }
    }
}

/// Opens a file for writing, without truncation. A new file is accessible to this user only.
pub(super) fn open_private(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new().create(create).truncate(false).write(true).mode(0o600).open(path)
}

/// Effective user id, read from the owner of a new file, since the standard library has no function for it.
fn effective_user_id(folder: &Path) -> io::Result<u32> {
    let path = folder.join(".owner");
    loop {
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                let user = file.metadata()?.uid();
                // Another process of the user may have removed the file.
                ignore_missing(std::fs::remove_file(&path))?;
                return Ok(user);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => ignore_missing(std::fs::remove_file(&path))?,
            Err(error) => return Err(error),
        }
    }
}

/// Turns the error of removing a missing file into success.
pub(super) fn ignore_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Returns true if `name` is a valid key: 16 to 128 hexadecimal digits. Files with other names are ignored.
pub(super) fn is_key(name: &str) -> bool {
    (16..=128).contains(&name.len()) && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Name of the file.
pub(super) const USED: &str = "used";

/// Size of the file: an identifier and a line break.
pub(super) const USED_BYTES: u64 = 37;

/// Sets the time of the last use of the shard in `path` to now.
pub(super) fn set_used_now(path: &Path) -> io::Result<()> {
    // Writing sets the modification time by the file system's clock, which all processes share.
    open_private(&path.join(USED), true)?.write_all(boot_id().unwrap_or("\n").as_bytes())
}

/// True if the shard in `path` was written or found whole since the machine was started, or if the system does not tell.
pub(super) fn is_of_this_boot(path: &Path) -> bool {
    boot_id().is_none_or(|id| std::fs::read(path.join(USED)).is_ok_and(|used| used == id.as_bytes()))
}
