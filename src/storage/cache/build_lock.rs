//! Build lock of a shard: one thread of one process builds the shard of a key.

use std::fs::File;
use std::path::PathBuf;

use super::folder::{CacheFolder, FileIdentity, ignore_missing, is_key, open_private};
use pairloom_base::error::Result;

/// Exclusive right to build the shard of a key. Drop releases it and removes what was not published.
#[derive(Debug)]
pub(super) struct BuildLock {
    lock: PathBuf,
    folder: PathBuf,
    held: File,
}

impl BuildLock {
    /// Takes the build lock of `key`; `None` if it is held elsewhere. Removes the files of a builder that was killed.
    pub fn try_acquire(folder: &CacheFolder, key: &str) -> Result<Option<Self>> {
        let lock = folder.tmp().join(format!("{key}.lock"));
        let failed = |error: std::io::Error| folder.io_error("open the lock", &lock, &error);
        loop {
            folder.check_not_removed()?;
            let file = open_private(&lock, true).map_err(failed)?;
            if !folder.is_lock_taken(&lock, file.try_lock())? {
                return Ok(None);
            }
            // The last holder may have unlinked the file between our open and our lock; then others lock another file.
            if FileIdentity::at(&lock).map_err(failed)? != Some(FileIdentity::of(&file).map_err(failed)?) {
                continue;
            }
            let build_lock = Self { folder: folder.tmp().join(key), lock, held: file };
            ignore_missing(std::fs::remove_dir_all(&build_lock.folder))
                .map_err(|error| folder.io_error("remove", &build_lock.folder, &error))?;
            return Ok(Some(build_lock));
        }
    }

    /// Folder to build the shard in. Not created yet.
    pub fn folder(&self) -> &PathBuf {
        &self.folder
    }
}

impl Drop for BuildLock {
    fn drop(&mut self) {
        // Files that cannot be removed now are removed by the next sweep. The lock is unlinked while it is held. If the
        // cache was removed, another cache may be in its place, which is left alone.
        if let (Ok(held), Ok(Some(found))) = (FileIdentity::of(&self.held), FileIdentity::at(&self.lock))
            && held == found
        {
            let _ = std::fs::remove_dir_all(&self.folder);
            let _ = std::fs::remove_file(&self.lock);
        }
    }
}

/// Removes the files of builders that were killed.
pub(super) fn remove_unfinished_builds(folder: &CacheFolder) -> Result<()> {
    let tmp = folder.tmp();
    let failed = |error: std::io::Error| folder.io_error("list", &tmp, &error);
    for entry in std::fs::read_dir(&tmp).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_string_lossy();
        let key = name.strip_suffix(".lock").unwrap_or(&name);
        if is_key(key) {
            drop(BuildLock::try_acquire(folder, key)?);
        }
    }
    Ok(())
}
