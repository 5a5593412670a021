//! Listing of the files of a folder as objects.
//!
//! The client of `object_store` asks the system five times for each file, which takes most of the time of a listing of
//! ten thousand files. This asks once.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::io::ErrorKind;
use std::path::Path;

use pairloom_base::error::{Error, Result};

/// Sizes in bytes of all files below `root/prefix`, by their path from `root`. Unfinished writes are left out, and so are
/// files that are removed meanwhile. A missing folder has no files.
///
/// # Errors
/// A folder cannot be read.
pub(super) fn file_sizes(root: &Path, prefix: &str) -> Result<BTreeMap<String, u64>> {
    let mut sizes = BTreeMap::new();
    add_folder(&root.join(prefix), prefix.trim_matches('/'), &mut sizes)?;
    Ok(sizes)
}

fn add_folder(folder: &Path, name: &str, sizes: &mut BTreeMap<String, u64>) -> Result<()> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(()),
        _ => Err(Error::io("list", folder, &error)),
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return failed(error),
    };
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return failed(error),
        };
        // Names of objects are text.
        let Ok(file) = entry.file_name().into_string() else { continue };
        let below = if name.is_empty() { file.clone() } else { format!("{name}/{file}") };
        match size_of(&entry) {
            Ok(Some(size)) if !is_unfinished(&file) => {
                sizes.insert(below, size);
            }
            Ok(Some(_)) => {}
            Ok(None) => add_folder(&entry.path(), &below, sizes)?,
            Err(error) => failed(error)?,
        }
    }
    Ok(())
}

/// Size of a file; `None` for a folder. A link counts as what it leads to.
fn size_of(entry: &DirEntry) -> std::io::Result<Option<u64>> {
    let kind = entry.file_type()?;
    if kind.is_dir() {
        return Ok(None);
    }
    let metadata = if kind.is_symlink() { fs::metadata(entry.path())? } else { entry.metadata()? };
    Ok(metadata.is_file().then_some(metadata.len()))
}

/// Returns true for the name of a file that was not renamed yet: `object_store` writes to `NAME#1`.
pub(super) fn is_unfinished(name: &str) -> bool {
    name.rsplit_once('#').is_some_and(|(_, n)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::ObjectStorage;

    #[test]
    fn files_are_listed_as_the_client_lists_them() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        write("runs/a.json", "1");
        write("runs/a.json#2", "unfinished");
        write("runs-b/c", "12");
        write("train/key/model/x y.bin", "123");
        fs::create_dir(folder.path().join("empty")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("train/key"), folder.path().join("link")).unwrap();
        let plain = ObjectStorage::local(folder.path()).unwrap();
        let client = object_store::local::LocalFileSystem::new_with_prefix(folder.path()).unwrap();
        let by_client = ObjectStorage::with_inner(std::sync::Arc::new(client), folder.path());
        for prefix in ["", "runs", "train/key", "runs/a.json", "nothing"] {
            let sizes = file_sizes(folder.path(), prefix).unwrap();
            assert_eq!(sizes, by_client.sizes(prefix).unwrap(), "{prefix}");
            assert_eq!(sizes, plain.sizes(prefix).unwrap(), "{prefix}");
        }
        let all = file_sizes(folder.path(), "").unwrap();
        assert_eq!(all.len(), 4);
        assert_eq!(all["link/model/x y.bin"], 3);
    }
}
