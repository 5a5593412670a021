//! Stamps of the folders of a source, by which its digest is known without a look at its files.
//!
//! The time of a folder changes when an entry is added, removed, renamed or replaced by a rename. It stays when a file is
//! rewritten in place, and says nothing of what a link leads to.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::file_stamp::FileStamp;
use super::sealed::{seal, unseal};
use pairloom_base::error::Result;
use pairloom_store::{Store, folder_times_name};

/// Digest of a source when its folders had these stamps.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FolderTimes {
    pub digest: String,
    pub folders: Vec<(PathBuf, FileStamp)>,
}

impl FolderTimes {
    /// Reads the stamps that are known of a source; `None` if there are none or they are damaged.
    pub fn read(store: &Store, source: &Path) -> Result<Option<Self>> {
        let content = store.objects().get(&folder_times_name(source))?;
        Ok(content.and_then(|content| serde_json::from_slice(unseal(&content)?).ok()))
    }

    /// Writes the stamps of a source.
    pub fn write(&self, store: &Store, source: &Path) -> Result<()> {
        // A path that is no text has no form in JSON. Such a source is always looked through.
        let Ok(content) = serde_json::to_vec(self) else { return Ok(()) };
        store.objects().put(&folder_times_name(source), seal(content).into())
    }

    /// True if all folders have their stamps still.
    pub fn are_current(&self) -> bool {
        let is_current = |(path, stamp): &(PathBuf, FileStamp)| {
            std::fs::metadata(path).is_ok_and(|meta| FileStamp::of(&meta) == *stamp)
        };
        !self.folders.is_empty() && self.folders.iter().all(is_current)
    }
}
