//! The images and captions of a split, joined.

use std::collections::HashMap;

use crate::error::{Error, Result, TruncatedList};
use crate::retrieval::{Collection, Matches, ScoreSource};
use crate::stage::Cx;

/// Identifiers of the images and captions of one split. Captions of an image stand together, in the order of the images.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) images: Vec<i64>,
    pub(super) captions: Vec<i64>,
    /// Index of the first caption of each image, and at the end the number of captions.
    pub(super) first_caption: Vec<usize>,
}

impl Pool {
    /// Joins captions with their images: `image_of` has the image of each caption. Gives the pool, and for each of its captions
    /// where it stands in `captions`. Messages name the split and the input of the images.
    ///
    /// A caption whose image is not there is left out, an image without captions stays as an item that no caption looks
    /// for: both with a warning, since both change what results mean.
    ///
    /// # Errors
    /// No caption belongs to an image.
    pub(super) fn join(
        images: Vec<i64>,
        captions: &[i64],
        image_of: &[i64],
        (split, input): (&str, &str),
        cx: &mut Cx<'_>,
    ) -> Result<(Self, Vec<usize>)> {
        let index = places(&images);
        let mut order: Vec<(usize, usize)> = Vec::with_capacity(captions.len());
        let mut orphans = Vec::new();
        for (caption, image_id) in image_of.iter().enumerate() {
            match index.get(image_id) {
                Some(&image) => order.push((image, caption)),
                None => orphans.push(captions[caption]),
            }
        }
        if !orphans.is_empty() {
            cx.warn(
                format!("captions of split `{split}`"),
                format!(
                    "{} left out, since `{input}` lacks their image: caption_id {}",
                    orphans.len(),
                    TruncatedList::from_iter(&orphans).join(", ")
                ),
            );
        }
        if order.is_empty() {
            return Err(Error::data(format!("no caption of split `{split}` belongs to an image of `{input}`")));
        }
        order.sort_by_key(|&(image, _)| image);

        let first_caption: Vec<usize> =
            (0..=images.len()).map(|image| order.partition_point(|&(of, _)| of < image)).collect();
        let alone = (0..images.len()).filter(|&image| first_caption[image] == first_caption[image + 1]);
        let alone: Vec<i64> = alone.map(|image| images[image]).collect();
        if !alone.is_empty() {
            cx.warn(
                format!("images of split `{split}`"),
                format!(
                    "{} without captions, ranked but not asked for: image_id {}",
                    alone.len(),
                    TruncatedList::from_iter(&alone).join(", ")
                ),
            );
        }
        let order: Vec<usize> = order.into_iter().map(|(_, caption)| caption).collect();
        let captions = order.iter().map(|&caption| captions[caption]).collect();
        Ok((Self { images, captions, first_caption }, order))
    }

    /// As retrieval knows it.
    pub(super) fn collection<'p>(&'p self, scores: &'p dyn ScoreSource) -> Collection<'p> {
        Collection {
            image_ids: &self.images,
            caption_ids: &self.captions,
            matches: Matches::Grouped(&self.first_caption),
            scores,
        }
    }
}

/// Where each identifier stands.
pub(super) fn places(ids: &[i64]) -> HashMap<i64, usize> {
    ids.iter().enumerate().map(|(place, &id)| (id, place)).collect()
}
