//! Who makes the shard of a key: one process and thread at a time.

use std::fs::File;
use std::path::PathBuf;

use super::folder::{Folder, Identity, ignore_missing, is_key, open_private};
use crate::error::Result;

/// The right to make the shard of a key, given back on drop together with all that was not taken into the cache.
#[derive(Debug)]
pub(super) struct Claim {
    lock: PathBuf,
    folder: PathBuf,
    held: File,
}

impl Claim {
    /// The claim on `key`, if nobody has it.
    ///
    /// What a maker that was killed left behind is removed.
    pub fn attempt(folder: &Folder, key: &str) -> Result<Option<Self>> {
        let lock = folder.tmp().join(format!("{key}.lock"));
        let failed = |error: std::io::Error| folder.failed("open the lock", &lock, &error);
        loop {
            folder.alive()?;
            let file = open_private(&lock, true).map_err(failed)?;
            if !folder.locked(&lock, file.try_lock())? {
                return Ok(None);
            }
            // Its last holder may have unlinked it between our open and our lock; then others lock another file.
            if Identity::at(&lock).map_err(failed)? != Some(Identity::of(&file).map_err(failed)?) {
                continue;
            }
            let claim = Self { folder: folder.tmp().join(key), lock, held: file };
            ignore_missing(std::fs::remove_dir_all(&claim.folder))
                .map_err(|error| folder.failed("remove", &claim.folder, &error))?;
            return Ok(Some(claim));
        }
    }

    /// Where the shard is made. It is not there at first.
    pub fn folder(&self) -> &PathBuf {
        &self.folder
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next sweep. The lock is unlinked while it is held. If the cache was
        // removed, what is in its place is somebody else's.
        if let (Ok(held), Ok(Some(found))) = (Identity::of(&self.held), Identity::at(&self.lock))
            && held == found
        {
            let _ = std::fs::remove_dir_all(&self.folder);
            let _ = std::fs::remove_file(&self.lock);
        }
    }
}

/// Removes what makers that were killed left behind.
pub(super) fn sweep(folder: &Folder) -> Result<()> {
    let tmp = folder.tmp();
    let failed = |error: std::io::Error| folder.failed("list", &tmp, &error);
    for entry in std::fs::read_dir(&tmp).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_string_lossy();
        let key = name.strip_suffix(".lock").unwrap_or(&name);
        if is_key(key) {
            drop(Claim::attempt(folder, key)?);
        }
    }
    Ok(())
}
