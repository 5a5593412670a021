//! Rows of `images` and `captions`, written in batches as they come.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryBuilder, Int64Builder, StringBuilder};

use super::settings::{CAPTION_PART_ROWS, IMAGE_PART_ROWS};
use crate::error::Result;
use crate::stage::Cx;
use crate::tables;

/// Bytes of the longest caption. Ten times the longest one in any data set that we know of.
const CAPTION_BYTES: usize = 16 * 1024;

/// An image as `images` has it.
#[derive(Debug)]
pub(super) struct Image<'a> {
    pub id: i64,
    pub split: &'a str,
    pub file_name: &'a str,
    pub path: Option<&'a str>,
    pub bytes: Option<&'a [u8]>,
}

/// Rows that are not written yet: at most a part of each table.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Images of all batches so far.
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

impl Rows {
    /// Adds an image and its captions as (id, text), and writes what makes a batch.
    pub fn push<'t>(
        &mut self,
        cx: &mut Cx<'_>,
        image: &Image<'_>,
        captions: impl IntoIterator<Item = (i64, &'t str)>,
    ) -> Result<()> {
        self.count += 1;
        self.image_id.append_value(image.id);
        self.image_split.append_value(image.split);
        self.file_name.append_value(image.file_name);
        self.path.append_option(image.path);
        self.bytes.append_option(image.bytes);
        for (id, text) in captions {
            self.caption_id.append_value(id);
            self.caption_image_id.append_value(image.id);
            self.caption_split.append_value(image.split);
            self.text.append_value(text);
            if self.caption_id.values_slice().len() == CAPTION_PART_ROWS {
                self.write_captions(cx)?;
            }
        }
        if self.image_id.values_slice().len() == IMAGE_PART_ROWS { self.write(cx) } else { Ok(()) }
    }

    /// Writes what is left.
    pub fn finish(mut self, cx: &mut Cx<'_>) -> Result<()> {
        self.write(cx)
    }

    fn write(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if self.image_id.values_slice().is_empty() {
            return Ok(());
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.image_id.finish()),
            Arc::new(self.image_split.finish()),
            Arc::new(self.file_name.finish()),
            Arc::new(self.path.finish()),
            Arc::new(self.bytes.finish()),
        ];
        cx.write("images", tables::batch(&tables::images::table().schema(), columns)?)?;
        self.write_captions(cx)
    }

    fn write_captions(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if self.caption_id.values_slice().is_empty() {
            return Ok(());
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.caption_id.finish()),
            Arc::new(self.caption_image_id.finish()),
            Arc::new(self.caption_split.finish()),
            Arc::new(self.text.finish()),
        ];
        cx.write("captions", tables::batch(&tables::captions::table().schema(), columns)?)
    }
}

/// A caption without white space around it, or what is wrong with it.
pub(super) fn caption(raw: &str) -> Result<&str, String> {
    let text = raw.trim();
    match text.len() {
        0 => Err("caption is empty".to_owned()),
        bytes if bytes > CAPTION_BYTES => Err(format!("caption has {bytes} bytes, wanted at most {CAPTION_BYTES}")),
        _ => Ok(text),
    }
}
