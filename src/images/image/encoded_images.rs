//! Encoded images of a batch of the table `images`.

use std::borrow::Cow;
use std::path::Path;

use arrow::array::{Array, AsArray, BinaryArray, RecordBatch, StringArray};

use pairloom_base::error::{Error, Result};
use pairloom_storage::image_names::shown_name;
use pairloom_tables as tables;

use super::{HeldImage, image_size, read_image_file};

/// Names, paths and bytes of the images of a batch.
#[derive(Debug)]
pub struct EncodedImages<'b> {
    names: &'b StringArray,
    paths: &'b StringArray,
    bytes: &'b BinaryArray,
    root: Option<&'b Path>,
}

impl<'b> EncodedImages<'b> {
    /// Images of `batch`, whose paths are relative to `root`.
    ///
    /// # Errors
    /// A column is missing or of another type.
    pub fn new(batch: &'b RecordBatch, root: Option<&'b Path>) -> Result<Self> {
        let bytes = batch
            .column_by_name("bytes")
            .and_then(|column| column.as_binary_opt::<i32>())
            .ok_or_else(|| Error::data("table `images` has no column `bytes` (Binary)"))?;
        let (names, paths) = (tables::text_column(batch, "file_name")?, tables::text_column(batch, "path")?);
        Ok(Self { names, paths, bytes, root })
    }

    /// File name of image `row`.
    pub fn name(&self, row: usize) -> &'b str {
        self.names.value(row)
    }

    /// File name of image `row` in messages, see [`shown_name`].
    pub fn shown_name(&self, row: usize) -> Cow<'b, str> {
        shown_name(self.name(row))
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True if there are no images.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Reads and decodes image `row`. Waits while the images that other threads hold and decode need too much memory, so
    /// a thread must hold one at a time. Error messages do not name the image.
    ///
    /// # Errors
    /// The image is missing, in another format, damaged or too large; all of these have the category
    /// [`Data`](pairloom_base::error::ErrorCategory::Data).
    pub fn decode(&self, row: usize) -> Result<HeldImage> {
        HeldImage::decode(&self.encoded(row)?)
    }

    /// Reads the width and height of image `row` in pixels, from its header. Error messages do not name the image.
    ///
    /// # Errors
    /// As [`EncodedImages::decode`], except for damaged pixels.
    pub fn size(&self, row: usize) -> Result<(usize, usize)> {
        image_size(&self.encoded(row)?)
    }

    /// Reads the bytes of image `row`. Error messages do not name the image.
    ///
    /// # Errors
    /// The image is missing or cannot be read.
    pub fn encoded(&self, row: usize) -> Result<Cow<'b, [u8]>> {
        if self.paths.is_null(row) {
            if self.bytes.is_null(row) {
                return Err(Error::data("it has neither a `path` nor `bytes`"));
            }
            return Ok(Cow::Borrowed(self.bytes.value(row)));
        }
        let path = self.paths.value(row);
        let Some(root) = self.root else {
            let path = shown_name(path);
            return Err(Error::data(format!("its path `{path}` is relative, but there is no image folder"))
                .hint("the stage that writes `images` gives no image folder, wanted `bytes`"));
        };
        read_image_file(root, path).map(Cow::Owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_tables::Nullable;

    #[test]
    fn names_are_whole_and_messages_show_no_query() {
        let columns = tables::images::TableColumns {
            image_id: vec![1].into(),
            split: vec!["train"].into(),
            file_name: vec!["https://h.org/a.jpg?signature=secret"].into(),
            path: Nullable(vec![None::<&str>].into()),
            bytes: Nullable(vec![None::<&[u8]>].into()),
            digest: Nullable(vec![None::<&str>].into()),
        };
        let batch = columns.into_batch().unwrap();
        let images = EncodedImages::new(&batch, None).unwrap();
        assert_eq!(images.name(0), "https://h.org/a.jpg?signature=secret");
        assert_eq!(images.shown_name(0), "https://h.org/a.jpg");
    }
}
