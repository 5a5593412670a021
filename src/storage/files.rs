//! Files of this machine: existence, first bytes, walks over folders, and the identifier of the boot.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use walkdir::{DirEntry, WalkDir};

use pairloom_base::error::{Error, Result};

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

/// Entries of a walk without the folder `left_out`, also where a link leads to it.
pub fn without_folder(
    walk: WalkDir,
    left_out: Option<&Path>,
) -> impl Iterator<Item = walkdir::Result<DirEntry>> + use<> {
    let identity = |meta: &Metadata| (meta.dev(), meta.ino());
    let left_out = left_out.and_then(|folder| Some(identity(&folder.metadata().ok()?)));
    walk.into_iter().filter_entry(move |entry| {
        let is_left_out = |left_out| entry.metadata().is_ok_and(|meta| identity(&meta) == left_out);
        !entry.file_type().is_dir() || !left_out.is_some_and(is_left_out)
    })
}

/// Finds the files at or below `path` whose names end in one of `endings`, in lower case, in the order of their names.
/// Leaves out the folder `left_out`.
///
/// # Errors
/// There is none, or a folder cannot be read.
pub fn files_with_endings(path: &Path, endings: &[&str], left_out: Option<&Path>) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in without_folder(WalkDir::new(path).follow_links(true).sort_by_file_name(), left_out) {
        let entry = entry.map_err(|error| Error::data(format!("cannot read `{}`: {error}", path.display())))?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if entry.file_type().is_file() && endings.iter().any(|end| name.ends_with(end)) {
            found.push(entry.into_path());
        }
    }
    if found.is_empty() {
        let message = format!("`{}` has no file whose name ends in {}", path.display(), endings.join(", "));
        return Err(Error::data(message));
    }
    Ok(found)
}

/// Identifier of this boot, with a line break, as Linux gives it; `None` if the system has none.
#[must_use]
pub fn boot_id() -> Option<&'static str> {
    static ID: OnceLock<Option<String>> = OnceLock::new();
    ID.get_or_init(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()).as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_their_endings_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir(root.join("a")).unwrap();
        for name in ["b.TAR", "a/2.tar", "a/1.tar.gz", "c.tarx"] {
            std::fs::write(root.join(name), b"").unwrap();
        }
        let names = |left_out: Option<&Path>| -> Vec<String> {
            let found = files_with_endings(root, &[".tar", ".tar.gz"], left_out).unwrap();
            found.iter().map(|path| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(None), ["a/1.tar.gz", "a/2.tar", "b.TAR"]);
        // A link to the folder leads there, too.
        std::os::unix::fs::symlink(root.join("a"), root.join("link")).unwrap();
        assert_eq!(names(None).len(), 5);
        assert_eq!(names(Some(&root.join("a"))), ["b.TAR"]);
        assert_eq!(names(Some(&root.join("none"))).len(), 5);
        assert_eq!(files_with_endings(&root.join("b.TAR"), &[".tar"], None).unwrap(), [root.join("b.TAR")]);
        let error = files_with_endings(root, &[".parquet"], None).unwrap_err().to_string();
        assert!(error.ends_with("has no file whose name ends in .parquet"), "{error}");
    }

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
