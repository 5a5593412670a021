//! Captions and images that a page mentions; each is read once.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array, AsArray};

use super::text::Label;
use crate::error::Result;
use crate::io::image::read_below;
use crate::io::thumbnail::thumbnail;
use crate::stage::Cx;
use crate::tables;

/// Width and height of a picture on the page, in pixels, at most.
const SIDE: u32 = 220;

/// Captions and images by their numbers.
#[derive(Debug, Default)]
pub(super) struct Things {
    with_captions: bool,
    with_images: bool,
    /// (image, text) by caption.
    captions: HashMap<i64, (i64, String)>,
    /// Captions by image, in the order of the table.
    captions_of: HashMap<i64, Vec<i64>>,
    images: HashMap<i64, Label>,
}

impl Things {
    /// Nothing read yet; of the two tables some may not be inputs.
    pub(super) fn new(with_captions: bool, with_images: bool) -> Self {
        Self { with_captions, with_images, ..Self::default() }
    }

    /// Reads these captions, and all those of some images, if there is such a table.
    pub(super) fn read_captions(
        &mut self,
        cx: &mut Cx<'_>,
        wanted: &HashSet<i64>,
        of_images: &HashSet<i64>,
    ) -> Result<()> {
        while self.with_captions
            && let Some(batch) = cx.next("captions")?
        {
            let (ids, image_ids) = (tables::ids(&batch, "caption_id")?, tables::ids(&batch, "image_id")?);
            let texts = tables::texts(&batch, "text")?;
            for row in 0..batch.num_rows() {
                let (id, image) = (ids.value(row), image_ids.value(row));
                if of_images.contains(&image) {
                    self.captions_of.entry(image).or_default().push(id);
                } else if !wanted.contains(&id) {
                    continue;
                }
                self.captions.insert(id, (image, texts.value(row).to_owned()));
            }
        }
        Ok(())
    }

    /// Reads these images, if there is such a table. One that cannot be shown is a warning.
    pub(super) fn read_images(&mut self, cx: &mut Cx<'_>, wanted: &HashSet<i64>) -> Result<()> {
        if !self.with_images {
            return Ok(());
        }
        let root = cx.path("images")?;
        while let Some(batch) = cx.next("images")? {
            let ids = tables::ids(&batch, "image_id")?;
            let (names, paths) = (tables::texts(&batch, "file_name")?, tables::texts(&batch, "path")?);
            let bytes = batch.column_by_name("bytes").and_then(|column| column.as_binary_opt::<i32>());
            for row in 0..batch.num_rows() {
                if !wanted.contains(&ids.value(row)) || self.images.contains_key(&ids.value(row)) {
                    continue;
                }
                let text = names.value(row).to_owned();
                let encoded = match (&root, bytes) {
                    (_, Some(bytes)) if bytes.is_valid(row) => Some(Ok(bytes.value(row).to_vec())),
                    (Some(root), _) if paths.is_valid(row) => Some(read_below(root, paths.value(row))),
                    _ => None,
                };
                let picture = encoded.map(|encoded| encoded.and_then(|encoded| thumbnail(&encoded, SIDE)));
                let picture = picture.transpose().unwrap_or_else(|error| {
                    cx.warn(text.clone(), format!("is not shown in the report: {error}"));
                    None
                });
                self.images.insert(ids.value(row), Label { text, picture });
            }
        }
        Ok(())
    }

    /// The text of a caption.
    pub(super) fn caption(&self, id: i64) -> Label {
        self.captions.get(&id).map_or_else(|| format!("caption {id}"), |(_, text)| text.clone()).into()
    }

    /// The name and the picture of an image.
    pub(super) fn image(&self, id: i64) -> Label {
        self.images.get(&id).cloned().unwrap_or_else(|| format!("image {id}").into())
    }

    /// The image of a caption that was read.
    pub(super) fn image_of(&self, caption: i64) -> Option<i64> {
        self.captions.get(&caption).map(|caption| caption.0)
    }

    /// The captions of an image for which they were read.
    pub(super) fn captions_of(&self, image: i64) -> &[i64] {
        self.captions_of.get(&image).map_or(&[], Vec::as_slice)
    }
}
