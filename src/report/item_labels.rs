//! Labels of the captions and images on a page: texts, file names and thumbnails. Each is read once.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array, AsArray};

use super::document::PageLabel;
use pairloom_base::error::Result;
use pairloom_images::image::read_image_file;
use pairloom_images::thumbnail::thumbnail;
use pairloom_stage::StageContext;
use pairloom_storage::image_names::shown_name;
use pairloom_tables as tables;

/// Maximum width and height of a thumbnail, in pixels.
const THUMBNAIL_SIDE: u32 = 220;

/// Labels of captions and images, by `caption_id` and `image_id`.
#[derive(Debug, Default)]
pub(super) struct ItemLabels {
    with_captions: bool,
    with_images: bool,
    /// (`image_id`, text) by `caption_id`.
    captions: HashMap<i64, (i64, String)>,
    /// `caption_id`s by `image_id`, in the order of the table.
    captions_of: HashMap<i64, Vec<i64>>,
    images: HashMap<i64, PageLabel>,
}

impl ItemLabels {
    /// Creates an empty set of labels. The flags say whether the tables `captions` and `images` are inputs.
    pub(super) fn new(with_captions: bool, with_images: bool) -> Self {
        Self { with_captions, with_images, ..Self::default() }
    }

    /// Reads the captions `shown`, and all captions of the images `shown_images`, if the table is an input.
    pub(super) fn read_captions(
        &mut self,
        cx: &mut StageContext<'_>,
        shown: &HashSet<i64>,
        shown_images: &HashSet<i64>,
    ) -> Result<()> {
        while self.with_captions
            && let Some(batch) = cx.read_next("captions")?
        {
            let (ids, image_ids) = (tables::int_column(&batch, "caption_id")?, tables::int_column(&batch, "image_id")?);
            let texts = tables::text_column(&batch, "text")?;
            for row in 0..batch.num_rows() {
                let (id, image) = (ids.value(row), image_ids.value(row));
                if shown_images.contains(&image) {
                    self.captions_of.entry(image).or_default().push(id);
                } else if !shown.contains(&id) {
                    continue;
                }
                self.captions.insert(id, (image, texts.value(row).to_owned()));
            }
        }
        Ok(())
    }

    /// Reads the images `shown`, if the table is an input. An image that cannot be decoded is a warning.
    pub(super) fn read_images(&mut self, cx: &mut StageContext<'_>, shown: &HashSet<i64>) -> Result<()> {
        if !self.with_images {
            return Ok(());
        }
        let root = cx.path("images")?;
        while let Some(batch) = cx.read_next("images")? {
            let ids = tables::int_column(&batch, "image_id")?;
            let (names, paths) = (tables::text_column(&batch, "file_name")?, tables::text_column(&batch, "path")?);
            let bytes = batch.column_by_name("bytes").and_then(|column| column.as_binary_opt::<i32>());
            for row in 0..batch.num_rows() {
                if !shown.contains(&ids.value(row)) || self.images.contains_key(&ids.value(row)) {
                    continue;
                }
                // A page is handed on.
                let text = shown_name(names.value(row)).into_owned();
                let encoded = match (&root, bytes) {
                    (_, Some(bytes)) if bytes.is_valid(row) => Some(Ok(bytes.value(row).to_vec())),
                    (Some(root), _) if paths.is_valid(row) => Some(read_image_file(root, paths.value(row))),
                    _ => None,
                };
                let picture = encoded.map(|encoded| encoded.and_then(|encoded| thumbnail(&encoded, THUMBNAIL_SIDE)));
                let picture = picture.transpose().unwrap_or_else(|error| {
                    cx.warn(text.clone(), format!("is not shown in the report: {error}"));
                    None
                });
                self.images.insert(ids.value(row), PageLabel { text, picture });
            }
        }
        Ok(())
    }

    /// Label of a caption: its text.
    pub(super) fn caption(&self, id: i64) -> PageLabel {
        self.captions.get(&id).map_or_else(|| format!("caption {id}"), |(_, text)| text.clone()).into()
    }

    /// Label of an image: its file name and thumbnail.
    pub(super) fn image(&self, id: i64) -> PageLabel {
        self.images.get(&id).cloned().unwrap_or_else(|| format!("image {id}").into())
    }

    /// Image of a caption that was read.
    pub(super) fn image_of_caption(&self, caption: i64) -> Option<i64> {
        self.captions.get(&caption).map(|caption| caption.0)
    }

    /// Captions of an image whose captions were read.
    pub(super) fn captions_of_image(&self, image: i64) -> &[i64] {
        self.captions_of.get(&image).map_or(&[], Vec::as_slice)
    }
}
