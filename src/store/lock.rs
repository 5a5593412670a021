//! Locks of the operating system: held by a process, and gone with it.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The lock of a folder, in the file `lock` in it; `None` if somebody has it.
pub(super) fn of_folder(folder: &Path, how: impl FnOnce(&File) -> Result<(), TryLockError>) -> Result<Option<File>> {
    let path = folder.join("lock");
    std::fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, &error))?;
    lock(&path, how)
}

/// A lock whose file is removed when it is given back. One that a killed process leaves is empty, and goes with the next
/// holder.
#[derive(Debug)]
pub(super) struct Passing(Option<(File, PathBuf)>);

impl Passing {
    /// No lock at all.
    pub(super) fn nothing() -> Self {
        Self(None)
    }

    /// The lock at `path`; `None` if somebody has it.
    pub(super) fn take(path: &Path) -> Result<Option<Self>> {
        loop {
            let Some(file) = lock(path, File::try_lock)? else { return Ok(None) };
            let locked = file.metadata().map_err(|error| Error::io("lock", path, &error))?;
            // Its last holder may have removed it between the opening and the locking: then it is no lock for anybody.
            if std::fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (locked.dev(), locked.ino())) {
                return Ok(Some(Self(Some((file, path.to_owned())))));
            }
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if let Some((_held, path)) = &self.0 {
            // While it is still held. A file that cannot be removed is only untidy.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn lock(path: &Path, how: impl FnOnce(&File) -> Result<(), TryLockError>) -> Result<Option<File>> {
    let open = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    let file = open.map_err(|error| Error::io("open the lock", path, &error))?;
    match how(&file) {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", path, &error)),
    }
}
