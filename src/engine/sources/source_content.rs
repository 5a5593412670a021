//! Content of a source, as far as a run has to know it.

use pairloom_stage::RowKey;

/// Content of a source.
#[derive(Debug, Clone)]
pub struct SourceContent {
    /// Digest of a file (its content), of a folder (the relative names and contents of all files in it and its
    /// subfolders), or of the list of objects in a bucket.
    pub digest: String,
    /// Keys of the path and of the content of each file or object; `None` if no file was looked at.
    pub files: Option<Vec<(RowKey, RowKey)>>,
}
