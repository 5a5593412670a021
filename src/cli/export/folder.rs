//! Folder that is written whole or not at all.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use pairloom_base::error::{Error, Result};

/// New folder under another name until all its files are complete.
pub(super) struct NewFolder {
    path: PathBuf,
    /// The folder while it is written.
    part: PathBuf,
    files: Vec<String>,
}

/// File of a [`NewFolder`].
pub(super) struct NewFile {
    out: BufWriter<File>,
    /// Path of the complete file.
    path: PathBuf,
}

impl NewFile {
    /// Error of a failed write.
    pub fn failed(&self, error: &std::io::Error) -> Error {
        Error::io("write", &self.path, error)
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// The disk is full, for example.
    pub fn finish(mut self) -> Result<()> {
        self.out.flush().map_err(|error| self.failed(&error))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

impl NewFolder {
    /// Creates the folder that [`NewFolder::commit`] renames to `path`.
    ///
    /// # Errors
    /// `path` is a file or a folder with files in it, or the folder cannot be created.
    pub fn create(path: &Path) -> Result<Self> {
        match std::fs::read_dir(path).map(|mut files| files.next().is_some()) {
            Ok(false) => {}
            Ok(true) => {
                let message = format!("the output folder `{}` has files, wanted a new or an empty one", path.display());
                return Err(Error::usage(message).hint("name another folder, or remove this one"));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(Error::usage(format!("the output `{}` is a file, wanted a folder", path.display())));
            }
            Err(error) => return Err(Error::io("read", path, &error)),
        }
        // A path such as `out/` has a name without the slash.
        let path: PathBuf = path.components().collect();
        let mut name = path.clone().into_os_string();
        name.push(format!(".{}.part", std::process::id()));
        let part = PathBuf::from(name);
        std::fs::create_dir_all(&part).map_err(|error| Error::io("create", &path, &error))?;
        Ok(Self { path, part, files: Vec::new() })
    }

    /// Creates a file of the folder.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn file(&mut self, name: &str) -> Result<NewFile> {
        self.files.push(name.to_owned());
        let path = self.path.join(name);
        let file = File::create(self.part.join(name)).map_err(|error| Error::io("write", &path, &error))?;
        Ok(NewFile { out: BufWriter::with_capacity(1 << 20, file), path })
    }

    /// Renames the folder and returns the names of its files.
    ///
    /// # Errors
    /// The folder cannot be renamed.
    pub fn commit(mut self) -> Result<Vec<String>> {
        std::fs::rename(&self.part, &self.path).map_err(|error| Error::io("create", &self.path, &error))?;
        Ok(std::mem::take(&mut self.files))
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        // After a failure. A leftover folder does no harm, and after a success there is none.
        let _ = std::fs::remove_dir_all(&self.part);
    }
}
