//! Keys of the images of a table, by which rows of earlier results are copied.

use arrow::array::RecordBatch;

use crate::error::Result;
use crate::stage::{FileKeys, RowKey};
use crate::tables;

/// Keys of images that are known without their bytes: from the keys of files, and from digests in the table.
pub(super) fn image_keys(batch: &RecordBatch, files: &FileKeys) -> Result<Vec<Option<RowKey>>> {
    let (paths, digests) = (tables::text_column(batch, "path")?, tables::text_column(batch, "digest")?);
    let keys = paths.iter().zip(digests).map(|(path, digest)| match path {
        Some(path) => files.get(path),
        None => digest.and_then(RowKey::of_digest),
    });
    Ok(keys.collect())
}
