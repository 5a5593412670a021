//! The pictures of a batch of `images`: where each one lies, and its bytes.

use std::borrow::Cow;
use std::path::Path;

use arrow::array::{Array, AsArray, BinaryArray, RecordBatch, StringArray};

use crate::error::{Error, Result};
use crate::tables;

use super::{Picture, decode, read_below};

/// The columns of `images` that lead to pictures.
#[derive(Debug)]
pub struct Pictures<'b> {
    names: &'b StringArray,
    paths: &'b StringArray,
    bytes: &'b BinaryArray,
    root: Option<&'b Path>,
}

impl<'b> Pictures<'b> {
    /// The pictures of `batch`, whose paths are relative to `root`.
    ///
    /// # Errors
    /// A column is missing or of another type.
    pub fn new(batch: &'b RecordBatch, root: Option<&'b Path>) -> Result<Self> {
        let bytes = batch
            .column_by_name("bytes")
            .and_then(|column| column.as_binary_opt::<i32>())
            .ok_or_else(|| Error::data("table `images` has no column `bytes` (Binary)"))?;
        let (names, paths) = (tables::texts(batch, "file_name")?, tables::texts(batch, "path")?);
        Ok(Self { names, paths, bytes, root })
    }

    /// What people know picture `row` by.
    pub fn name(&self, row: usize) -> &'b str {
        self.names.value(row)
    }

    /// Reads and decodes picture `row`. The message of an error does not name the picture.
    ///
    /// # Errors
    /// [`Kind::Data`](crate::error::Kind) if the fault is the picture's: no file, not a picture, damaged, too large.
    pub fn decode(&self, row: usize) -> Result<Picture> {
        decode(&self.encoded(row)?)
    }

    fn encoded(&self, row: usize) -> Result<Cow<'b, [u8]>> {
        if self.paths.is_null(row) {
            if self.bytes.is_null(row) {
                return Err(Error::data("it has neither a `path` nor `bytes`"));
            }
            return Ok(Cow::Borrowed(self.bytes.value(row)));
        }
        let path = self.paths.value(row);
        let Some(root) = self.root else {
            return Err(Error::data(format!("its path `{path}` is relative to no folder"))
                .hint("the producer of `images` names no image folder; wanted `bytes`"));
        };
        read_below(root, path).map(Cow::Owned)
    }
}
