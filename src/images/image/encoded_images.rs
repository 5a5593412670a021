//! Encoded images: of a batch of the table `images`, of files below a folder, and their digests as in the column `digest`.

use std::borrow::Cow;
use std::path::{Component, Path};

use arrow::array::{Array, AsArray, BinaryArray, RecordBatch, StringArray};

use super::{HeldImage, image_size};
use pairloom_base::error::{Error, Result};
use pairloom_storage::bounded;
use pairloom_storage::image_names::shown_name;
use pairloom_tables as tables;

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
                .hint("the stage that writes `images` gives no image folder, expected `bytes`"));
        };
        read_image_file(root, path).map(Cow::Owned)
    }
}

/// Maximum size of a file in bytes: no image of the permitted size needs more.
const MAX_BYTES: u64 = 1 << 30;

/// Reads the bytes of the image at `path` below `root`.
///
/// # Errors
/// `path` leads out of `root`, or is not a readable regular file of at most 1 GiB.
pub fn read_image_file(root: &Path, path: &str) -> Result<Vec<u8>> {
    let relative = Path::new(path);
    if !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(Error::data(format!("its path `{}` leads out of the image folder", shown_name(path))));
    }
    bounded::read(&root.join(relative), MAX_BYTES).map_err(|error| error.with_shown_name(path, &shown_name(path)))
}

/// BLAKE3 digest of an encoded image, in hexadecimal digits.
#[must_use]
pub fn picture_digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Digest of each encoded image; missing where the image is.
#[must_use]
pub fn picture_digests(bytes: &BinaryArray) -> StringArray {
    bytes.iter().map(|bytes| bytes.map(picture_digest)).collect()
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

    #[test]
    fn no_path_leads_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("images");
        std::fs::create_dir_all(inner.join("a")).unwrap();
        std::fs::write(inner.join("a/b.jpg"), "picture").unwrap();
        std::fs::write(folder.path().join("secret"), "secret").unwrap();
        assert_eq!(read_image_file(&inner, "a/b.jpg").unwrap(), b"picture");
        assert_eq!(read_image_file(&inner, "./a/b.jpg").unwrap(), b"picture");
        for path in ["../secret", "a/../../secret", "/etc/hostname", folder.path().join("secret").to_str().unwrap()] {
            assert!(read_image_file(&inner, path).unwrap_err().to_string().contains("leads out"), "{path}");
        }
        assert!(read_image_file(&inner, "gone.jpg").unwrap_err().to_string().contains("gone.jpg"));
        for name in ["https://me:secret@h.org/a.jpg?secret", "https://me:secret@h.org/../../../../a.jpg?secret"] {
            let error = read_image_file(&inner, name).unwrap_err().to_string();
            assert!(error.contains("https://h.org/") && !error.contains("secret"), "{error}");
        }
        for folder in ["", ".", "a"] {
            assert!(read_image_file(&inner, folder).unwrap_err().to_string().ends_with("is not a file"), "{folder}");
        }
    }

    #[test]
    fn a_digest_is_that_of_blake3_and_missing_without_an_image() {
        // The digest of no bytes that the authors of BLAKE3 publish.
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        let digests = picture_digests(&BinaryArray::from(vec![None, Some(&b""[..]), None]));
        assert_eq!(digests, StringArray::from(vec![None, Some(empty), None]));
    }
}
