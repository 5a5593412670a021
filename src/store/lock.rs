//! File locks of the operating system. They are released when the process ends, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pairloom_base::error::{Error, Result};

/// Name of the file in a folder through which the folder is locked.
pub(super) const LOCK_FILE: &str = "lock";

/// Locks a folder through the file `lock` in it; `None` if another process holds the lock.
pub(super) fn lock_folder(
    folder: &Path,
    try_lock: impl FnOnce(&File) -> Result<(), TryLockError>,
) -> Result<Option<File>> {
    let path = folder.join(LOCK_FILE);
    std::fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, &error))?;
    lock(&path, try_lock)
}

/// Locks a folder whose lock file exists, without writing; `None` if another process holds the lock.
pub(super) fn lock_existing(
    folder: &Path,
    try_lock: impl FnOnce(&File) -> Result<(), TryLockError>,
) -> Result<Option<File>> {
    let path = folder.join(LOCK_FILE);
    let file = File::open(&path).map_err(|error| Error::io("open the lock", &path, &error))?;
    locked(file, &path, try_lock)
}

/// A lock whose file is removed when the lock is released. The file of a killed process is empty, and the next holder
/// removes it.
#[derive(Debug)]
pub(super) struct TemporaryLock(Option<(File, PathBuf)>);

impl TemporaryLock {
    /// A placeholder without a lock.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Locks the file at `path`; `None` if another process holds the lock.
    pub(super) fn try_lock(path: &Path) -> Result<Option<Self>> {
        loop {
            let Some(file) = lock(path, File::try_lock)? else { return Ok(None) };
            let locked = file.metadata().map_err(|error| Error::io("lock", path, &error))?;
            // The previous holder may have removed the file after it was opened here. Other processes then lock a new
            // file.
            if std::fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (locked.dev(), locked.ino())) {
                return Ok(Some(Self(Some((file, path.to_owned())))));
            }
        }
    }
}

impl Drop for TemporaryLock {
    fn drop(&mut self) {
        if let Some((_held, path)) = &self.0 {
            // The lock is still held here. It does no harm if the file cannot be removed.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn lock(path: &Path, try_lock: impl FnOnce(&File) -> Result<(), TryLockError>) -> Result<Option<File>> {
    let open = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    let file = open.map_err(|error| Error::io("open the lock", path, &error))?;
    locked(file, path, try_lock)
}

fn locked(file: File, path: &Path, try_lock: impl FnOnce(&File) -> Result<(), TryLockError>) -> Result<Option<File>> {
    match try_lock(&file) {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", path, &error)
            .hint("if the disk has no locks (`flock`), mount it with them, or use a store at a URL")),
    }
}
