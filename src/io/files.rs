//! Whether a file of a data set is there, told apart from not being able to tell, and how it begins.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use crate::error::{Error, Result};

/// Whether there is a file at `path`. A folder is none; a link is what it leads to.
///
/// # Errors
/// It cannot be told, such as for a folder that must not be read.
pub fn is_file(path: &Path) -> Result<bool> {
    match std::fs::metadata(path) {
        Ok(found) => Ok(found.is_file()),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => Ok(false),
            _ => Err(Error::io("look for", path, &error)),
        },
    }
}

/// The first `N` bytes of the file at `path`, with zeros after the end of a shorter one.
///
/// # Errors
/// No such file, not a regular file (a pipe would wait for a writer), or one that cannot be read.
pub fn begin<const N: usize>(path: &Path) -> Result<[u8; N]> {
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
    fn tells_files_from_all_else() {
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
    fn gives_the_first_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, b"abc").unwrap();
        assert_eq!(begin::<2>(&path).unwrap(), *b"ab");
        assert_eq!(begin::<5>(&path).unwrap(), *b"abc\0\0");
        assert!(begin::<1>(folder.path()).unwrap_err().to_string().ends_with("is not a file"));
        assert!(begin::<1>(&folder.path().join("gone")).unwrap_err().to_string().contains("cannot read"));
    }
}
