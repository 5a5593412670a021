//! Existence and first bytes of files.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use crate::error::{Error, Result};

/// Returns true if `path` is a file, and false if it is missing or a folder. Links are followed.
///
/// # Errors
/// The file system returns an error, for example because access to the folder is denied.
pub fn is_file(path: &Path) -> Result<bool> {
    match std::fs::metadata(path) {
        Ok(found) => Ok(found.is_file()),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => Ok(false),
            _ => Err(Error::io("look for", path, &error)),
        },
    }
}

/// Reads the first `N` bytes of the file at `path`, padded with zeros if it is shorter.
///
/// # Errors
/// The file is missing, not a regular file (a pipe would wait for a writer), or cannot be read.
pub fn first_bytes<const N: usize>(path: &Path) -> Result<[u8; N]> {
    let failed = |error: std::io::Error| Error::io("read", path, &error);
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(Error::data(format!("`{}` is not a file", path.display())));
    }
    let mut bytes = Vec::with_capacity(N);
    File::open(path).map_err(failed)?.take(N as u64).read_to_end(&mut bytes).map_err(failed)?;
    bytes.resize(N, 0);
    Ok(std::array::from_fn(|i| bytes[i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_file_is_true_for_files_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert!(!is_file(&path).unwrap());
        std::fs::write(&path, b"").unwrap();
        assert!(is_file(&path).unwrap());
        assert!(!is_file(folder.path()).unwrap());
        assert!(!is_file(&path.join("below a file")).unwrap());
        assert!(!is_file(&folder.path().join("long".repeat(1000))).unwrap());
    }

    #[test]
    fn first_bytes_are_padded_with_zeros() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, b"abc").unwrap();
        assert_eq!(first_bytes::<2>(&path).unwrap(), *b"ab");
        assert_eq!(first_bytes::<5>(&path).unwrap(), *b"abc\0\0");
        assert!(first_bytes::<1>(folder.path()).unwrap_err().to_string().ends_with("is not a file"));
        assert!(first_bytes::<1>(&folder.path().join("gone")).unwrap_err().to_string().contains("cannot read"));
    }
}
