//! Buffered writer of `images` and `captions`, and the number of rows of a part of each table that `ingest` writes.

use std::fmt::Display;
use std::path::Path;

use arrow::array::{BinaryBuilder, Int64Builder, StringBuilder};

use super::OnMissing;
use pairloom_base::error::{Result, SkippedItems};
use pairloom_images::image::picture_digests;
use pairloom_stage::StageContext;
use pairloom_tables::{Nullable, captions, images};

/// Maximum length of a caption, in bytes: ten times that of the longest caption in known data sets.
const MAX_CAPTION_BYTES: usize = 16 * 1024;

/// Number of bytes of images, or of their names, after which rows are written.
const MAX_BUFFERED_BYTES: usize = 32 << 20;

/// Number of captions without text that a warning names.
const SHOWN: usize = 5;

/// Row of `images`.
#[derive(Debug)]
pub(super) struct ImageRow<'a> {
    pub id: i64,
    pub split: &'a str,
    pub file_name: &'a str,
    pub path: Option<&'a str>,
    pub bytes: Option<&'a [u8]>,
}

/// Writer that buffers at most one part of each table.
#[derive(Debug, Default)]
pub(super) struct DataSetWriter {
    /// Number of images so far.
    pub count: usize,
    image_id: Int64Builder,
    image_split: StringBuilder,
    file_name: StringBuilder,
    path: StringBuilder,
    bytes: BinaryBuilder,
    caption_id: Int64Builder,
    caption_image_id: Int64Builder,
    caption_split: StringBuilder,
    text: StringBuilder,
}

impl DataSetWriter {
    /// Adds an image and its captions, as (id, text), and writes full batches.
    pub fn push<'t>(
        &mut self,
        cx: &mut StageContext<'_>,
        image: &ImageRow<'_>,
        captions: impl IntoIterator<Item = (i64, &'t str)>,
    ) -> Result<()> {
        self.count += 1;
        self.image_id.append_value(image.id);
        self.image_split.append_value(image.split);
        self.file_name.append_value(image.file_name);
        self.path.append_option(image.path);
        self.bytes.append_option(image.bytes);
        self.push_captions(cx, image.id, image.split, captions)?;
        let is_full = self.image_id.values_slice().len() == IMAGE_PART_ROWS
            || self.bytes.values_slice().len() > MAX_BUFFERED_BYTES
            || self.file_name.values_slice().len() + self.path.values_slice().len() > MAX_BUFFERED_BYTES;
        if is_full { self.write(cx) } else { Ok(()) }
    }

    /// Adds captions, as (id, text), of an image that is written elsewhere.
    pub fn push_captions<'t>(
        &mut self,
        cx: &mut StageContext<'_>,
        image_id: i64,
        split: &str,
        captions: impl IntoIterator<Item = (i64, &'t str)>,
    ) -> Result<()> {
        for (id, text) in captions {
            self.caption_id.append_value(id);
            self.caption_image_id.append_value(image_id);
            self.caption_split.append_value(split);
            self.text.append_value(text);
            if self.caption_id.values_slice().len() == CAPTION_PART_ROWS {
                self.write_captions(cx)?;
            }
        }
        Ok(())
    }

    /// Writes the remaining rows.
    pub fn finish(mut self, cx: &mut StageContext<'_>) -> Result<()> {
        self.write(cx)
    }

    /// Writes the rows so far.
    pub fn write(&mut self, cx: &mut StageContext<'_>) -> Result<()> {
        if self.image_id.values_slice().is_empty() {
            return self.write_captions(cx);
        }
        let bytes = self.bytes.finish();
        let images = images::TableColumns {
            image_id: self.image_id.finish(),
            split: self.image_split.finish(),
            file_name: self.file_name.finish(),
            path: Nullable(self.path.finish()),
            digest: Nullable(picture_digests(&bytes)),
            bytes: Nullable(bytes),
        };
        cx.write("images", images.into_batch()?)?;
        self.write_captions(cx)
    }

    fn write_captions(&mut self, cx: &mut StageContext<'_>) -> Result<()> {
        if self.caption_id.values_slice().is_empty() {
            return Ok(());
        }
        let captions = captions::TableColumns {
            caption_id: self.caption_id.finish(),
            image_id: self.caption_image_id.finish(),
            split: self.caption_split.finish(),
            text: self.text.finish(),
        };
        cx.write("captions", captions.into_batch()?)
    }
}

/// Returns a caption without surrounding white space, or an error message.
pub(super) fn clean_caption(raw: &str) -> Result<&str, String> {
    let text = raw.trim();
    match text.len() {
        0 => Err("caption is empty".to_owned()),
        _ if text.contains('\0') => Err("caption has a zero byte, expected text".to_owned()),
        bytes if bytes > MAX_CAPTION_BYTES => {
            Err(format!("caption has {bytes} bytes, expected at most {MAX_CAPTION_BYTES}"))
        }
        _ => Ok(text),
    }
}

/// Cleaner of captions, which leaves out those that are empty or null, or refuses them.
#[derive(Debug)]
pub(super) struct CaptionCleaner {
    policy: OnMissing,
    max_skipped: f64,
    skipped: SkippedItems,
}

impl CaptionCleaner {
    /// Leaves out at most the share `max_skipped` of all captions if the policy is to skip.
    pub fn new(policy: OnMissing, max_skipped: f64) -> Self {
        Self { policy, max_skipped, skipped: SkippedItems { skipped: 0, total: 0, first: Vec::new() } }
    }

    /// Returns a caption without surrounding white space; `None` if it is empty or null and is left out.
    ///
    /// # Errors
    /// Message: there is no caption, or a wrong one.
    pub fn clean<'t>(&mut self, raw: Option<&'t str>, place: impl Display) -> Result<Option<&'t str>, String> {
        match raw {
            Some(text) if !text.trim().is_empty() => {
                self.skipped.total += 1;
                clean_caption(text).map(Some)
            }
            Some(_) => self.leave_out(place, "caption is empty").map(|()| None),
            None => self.leave_out(place, "caption is missing").map(|()| None),
        }
    }

    /// Leaves out a caption that is not there, for a reason.
    ///
    /// # Errors
    /// Message with the reason, if the policy is to fail.
    pub fn leave_out(&mut self, place: impl Display, reason: &str) -> Result<(), String> {
        if self.policy == OnMissing::Fail {
            return Err(format!("{reason}: `on_missing = \"skip\"` leaves such captions out"));
        }
        self.skipped.total += 1;
        self.skipped.skipped += 1;
        if self.skipped.first.len() < SHOWN {
            self.skipped.first.push(format!("{place}: {reason}"));
        }
        Ok(())
    }

    /// Warns of the captions of the file at `path` that were left out.
    ///
    /// # Errors
    /// More were left out than allowed.
    pub fn finish(self, cx: &mut StageContext<'_>, path: &Path) -> Result<()> {
        let SkippedItems { skipped, total, first } = &self.skipped;
        if *skipped > 0 {
            let first = first.join("; ");
            cx.warn(path.display().to_string(), format!("{skipped} of {total} captions are left out: {first}"));
        }
        self.skipped.check("captions", self.max_skipped, "check the name of the column of captions")
    }
}

/// Number of rows of a part of `images`.
pub(super) const IMAGE_PART_ROWS: usize = 1024;
/// Number of rows of a part of `images` that has the bytes of photographs: some 10 MB, at most 1 GiB.
pub(super) const PICTURE_PART_ROWS: usize = 64;
/// Number of rows of a part of `captions`.
pub(super) const CAPTION_PART_ROWS: usize = 8192;
/// Number of rows of a part of `ratings`.
pub(super) const RATING_PART_ROWS: usize = 8192;
/// Number of rows of a part of `published`.
pub(super) const PUBLISHED_PART_ROWS: usize = 8192;
/// Number of rows of a part of `qrels`.
pub(super) const QRELS_PART_ROWS: usize = 65_536;
/// Number of rows of a part of `features`.
pub(super) const FEATURE_PART_ROWS: usize = 1024;
/// Number of rows of a part of `regions`: 38 MB for 36 regions of 2,048 values.
pub(super) const REGION_PART_ROWS: usize = 128;

#[cfg(test)]
mod tests {
    use arrow::array::RecordBatch;

    use super::*;
    use pairloom_stage_testing::InMemoryHost;

    #[test]
    fn long_names_are_written_before_they_fill_a_column() {
        let (mut host, mut rows) = (InMemoryHost::default(), DataSetWriter::default());
        let name = "a".repeat(9 << 20);
        for id in 0..5 {
            let row = ImageRow { id, split: "test", file_name: &name, path: None, bytes: None };
            rows.push(&mut host, &row, []).unwrap();
        }
        rows.finish(&mut host).unwrap();
        assert_eq!(host.output_tables["images"].iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [4, 1]);
    }
}
