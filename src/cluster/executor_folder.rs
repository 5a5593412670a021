//! Folder of an executor for the rows that other processes fetch, and for temporary files.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::random_hex;

/// Start of the name of an executor's folder. Sixteen hexadecimal digits follow.
const PREFIX: &str = "pairloom-executor-";

/// Folder of this process, which is removed at its end. It is locked (`flock`) while the process lives; a later executor
/// removes the folder of one that was killed.
#[derive(Debug)]
pub(super) struct ExecutorFolder {
    pub(super) path: PathBuf,
    /// Holds the lock.
    _folder: File,
}

impl ExecutorFolder {
    /// Makes a folder in `parent`, which is made too, and removes the folders there whose executors were killed.
    ///
    /// # Errors
    /// A folder cannot be made.
    pub(super) fn create(parent: &Path) -> Result<Self> {
        std::fs::create_dir_all(parent).map_err(|error| Error::io("make the folder", parent, &error))?;
        loop {
            let path = parent.join(format!("{PREFIX}{}", random_hex::<8>()?));
            let failed = |error: std::io::Error| Error::io("make the folder", &path, &error);
            DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
            // Before it is locked, another executor may take it for an abandoned one. Then a new one is made.
            let folder = match File::open(&path) {
                Ok(folder) => folder,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            if matches!(folder.try_lock(), Err(TryLockError::WouldBlock)) || !path.is_dir() {
                continue;
            }
            let made = Self { path, _folder: folder };
            made.remove_abandoned(parent);
            return Ok(made);
        }
    }

    /// Removes other folders of this user that nobody holds. On a disk without locks none counts as abandoned.
    fn remove_abandoned(&self, parent: &Path) {
        let (Ok(own), Ok(entries)) = (std::fs::metadata(&self.path), std::fs::read_dir(parent)) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_executor = name
                .to_str()
                .and_then(|name| name.strip_prefix(PREFIX))
                .is_some_and(|digits| digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
            // Metadata of an entry do not follow links.
            let is_ours = entry.metadata().is_ok_and(|folder| folder.is_dir() && folder.uid() == own.uid());
            if !is_executor || !is_ours || entry.path() == self.path {
                continue;
            }
            if let Ok(folder) = File::open(entry.path())
                && folder.try_lock().is_ok()
            {
                // What cannot be removed only takes up space.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Drop for ExecutorFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn folders_of_killed_executors_are_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let within = |name: &str| parent.path().join(name);
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join("kept"), "rows").unwrap();
        let kept = [
            "pairloom-executor-0123",
            "pairloom-executor-0123456789abcdeg",
            "other",
            "pairloom-executor-ffffffffffffffff",
        ];
        for name in &kept[..3] {
            std::fs::create_dir(within(name)).unwrap();
        }
        symlink(other.path(), within(kept[3])).unwrap();

        let alive = ExecutorFolder::create(parent.path()).unwrap();
        std::fs::write(alive.path.join("rows"), "rows").unwrap();
        // Its lock ends with the process, as after `kill -9`.
        let killed = within("pairloom-executor-0123456789abcdef");
        std::fs::create_dir(&killed).unwrap();
        std::fs::write(killed.join("rows"), "rows").unwrap();

        let next = ExecutorFolder::create(parent.path()).unwrap();
        assert!(!killed.exists());
        assert!(alive.path.join("rows").exists() && next.path.exists());
        for name in kept {
            assert!(within(name).symlink_metadata().is_ok(), "{name}");
        }
        assert!(other.path().join("kept").exists());

        let paths = [alive.path.clone(), next.path.clone()];
        drop((alive, next));
        assert!(!paths[0].exists() && !paths[1].exists());
    }
}
