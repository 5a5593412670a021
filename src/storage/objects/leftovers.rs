//! Files and folders that are no objects: writes of killed processes, and folders of removed objects.

use crate::objects::ObjectStorage;
use crate::objects::file_sizes::is_unfinished;
use pairloom_base::error::{Error, Result};

impl ObjectStorage {
    /// Removes unfinished writes of killed processes below `prefix`: files that have not been renamed to their object.
    /// Other processes must not write there meanwhile. At a URL there is nothing to remove.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn remove_unfinished_writes(&self, prefix: &str) -> Result<()> {
        let Some(folder) = self.folder() else { return Ok(()) };
        for entry in walkdir::WalkDir::new(folder.join(prefix)).into_iter().filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy();
            // `object_store` writes to `NAME#1` and renames it to `NAME`.
            if is_unfinished(&name) && entry.file_type().is_file() {
                std::fs::remove_file(entry.path()).map_err(|error| Error::io("remove", entry.path(), &error))?;
            }
        }
        Ok(())
    }

    /// Removes a folder without objects. A store that is no folder has none, and a folder with objects stays.
    pub fn remove_empty_folder(&self, name: &str) {
        if let Some(folder) = self.folder() {
            // It only tidies up.
            let _ = std::fs::remove_dir(folder.join(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_last_object() {
        let folder = tempfile::tempdir().unwrap();
        let objects = ObjectStorage::local(folder.path()).unwrap();
        objects.put("searches/results/1/0", "list".into()).unwrap();
        objects.remove_empty_folder("searches/results/1");
        assert_eq!(objects.get("searches/results/1/0").unwrap().unwrap(), "list");
        objects.delete("searches/results/1/0").unwrap();
        objects.remove_empty_folder("searches/results/1");
        assert!(!folder.path().join("searches/results/1").exists() && folder.path().join("searches/results").exists());
        objects.remove_empty_folder("absent");
    }
}
