//! Digest of a source in a bucket: of the URL, and of the names and stamps of the objects below it. No object is read.

use super::source_content::SourceContent;
use pairloom_base::error::{Error, Result};
use pairloom_stage::{RowKey, object_key};
use pairloom_storage::objects::ObjectStorage;

/// Lists the objects of a source, 32 bytes of memory each.
pub(super) fn read_bucket(objects: &ObjectStorage) -> Result<SourceContent> {
    let url = objects.display_path("");
    let mut files = objects.list_objects(|object| {
        let key = object_key(&url, object.name, object.stamp.as_bytes());
        (RowKey::of(object.name.as_bytes()), key)
    })?;
    if files.is_empty() {
        let error = Error::data(format!("there is no object below `{url}`"));
        return Err(error.hint(
            "is the prefix right? It is a whole folder name: `s3://bucket/photos` has `photos/1.jpg`, and not \
             `photos-2026/1.jpg`",
        ));
    }
    files.sort_unstable();
    let mut whole = blake3::Hasher::new();
    for (name, key) in &files {
        whole.update(&name.to_bytes()).update(&key.to_bytes());
    }
    Ok(SourceContent { digest: whole.finalize().to_hex()[..32].to_owned(), files: Some(files) })
}
