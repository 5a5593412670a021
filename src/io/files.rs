//! Whether a file of a data set is there, told apart from not being able to tell.

use std::io::ErrorKind;
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
}
