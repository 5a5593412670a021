//! Calls of the file system by which a store in a folder is written. Tests record them.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

/// Calls that change a folder. Each is one call of the operating system, or a loop of one.
pub trait FolderCalls: fmt::Debug + Send + Sync {
    /// Creates a file that must not exist.
    ///
    /// # Errors
    /// The file exists, its folder does not, or the system refuses.
    fn create(&self, path: &Path) -> io::Result<File>;

    /// Appends bytes to a file that was created at `path`.
    ///
    /// # Errors
    /// The system refuses, as on a full disk.
    fn write(&self, file: &mut File, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Waits until the content of a file is on the disk.
    ///
    /// # Errors
    /// The disk failed. What is on it is unknown then, also after a second call without an error.
    fn sync_file(&self, file: &File, path: &Path) -> io::Result<()>;

    /// Waits until the names in a folder are on the disk.
    ///
    /// # Errors
    /// The disk failed.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Renames a file, replacing another.
    ///
    /// # Errors
    /// The system refuses.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name, which must be free.
    ///
    /// # Errors
    /// The name is taken, or the system refuses.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes the name of a file.
    ///
    /// # Errors
    /// There is none, or the system refuses.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// Calls of the operating system.
#[derive(Debug, Clone, Copy)]
pub struct SystemCalls;

impl FolderCalls for SystemCalls {
    fn create(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    fn write(&self, file: &mut File, _path: &Path, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync_file(&self, file: &File, _path: &Path) -> io::Result<()> {
        file.sync_all()
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        match File::open(folder).and_then(|folder| folder.sync_all()) {
            // Some network file systems cannot sync a folder. They promise nothing, and there is nothing else to call.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
            result => result,
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}
