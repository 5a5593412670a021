//! Rows of `images` and `captions`, written in batches as they come.

use arrow::array::{BinaryBuilder, Int64Builder, StringBuilder};

use super::parts::{CAPTION_PART_ROWS, IMAGE_PART_ROWS};
use crate::error::Result;
use crate::stage::Cx;
use crate::tables::{Optional, captions, images};

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
        let images = images::Columns {
            image_id: self.image_id.finish(),
            split: self.image_split.finish(),
            file_name: self.file_name.finish(),
            path: Optional(self.path.finish()),
            bytes: Optional(self.bytes.finish()),
        };
        cx.write("images", images.into_batch()?)?;
        self.write_captions(cx)
    }

    fn write_captions(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if self.caption_id.values_slice().is_empty() {
            return Ok(());
        }
        let captions = captions::Columns {
            caption_id: self.caption_id.finish(),
            image_id: self.caption_image_id.finish(),
            split: self.caption_split.finish(),
            text: self.text.finish(),
        };
        cx.write("captions", captions.into_batch()?)
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
