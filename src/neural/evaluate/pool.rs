//! Pool of a split: its images and captions, joined.

use std::collections::HashMap;

use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_retrieval::{Collection, Matches, ScoreSource};
use pairloom_stage::StageContext;

/// Identifiers of the images and captions of one split. Captions are sorted by image, in the order of the images.
#[derive(Debug)]
pub(super) struct SplitPool {
    pub(super) images: Vec<i64>,
    pub(super) captions: Vec<i64>,
    /// Index of the first caption of each image, and at the end the number of captions.
    pub(super) first_caption: Vec<usize>,
}

impl SplitPool {
    /// Joins captions with their images; `image_of` has the image of each caption. Returns the pool, and the index in
    /// `captions` of each of its captions. Messages name the split and the input of the images.
    ///
    /// A caption whose image is absent is left out. An image without captions stays in the pool as an item that matches
    /// no caption. Both cause a warning, since both change the meaning of results.
    ///
    /// # Errors
    /// No caption belongs to an image.
    pub(super) fn join(
        images: Vec<i64>,
        captions: &[i64],
        image_of: &[i64],
        (split, input): (&str, &str),
        cx: &mut StageContext<'_>,
    ) -> Result<(Self, Vec<usize>)> {
        let index = positions_by_id(&images);
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
            (0..=images.len()).map(|image| order.partition_point(|&(other, _)| other < image)).collect();
        let alone = (0..images.len()).filter(|&image| first_caption[image] == first_caption[image + 1]);
        let alone: Vec<i64> = alone.map(|image| images[image]).collect();
        if !alone.is_empty() {
            cx.warn(
                format!("images of split `{split}`"),
                format!(
                    "{} without captions, ranked as items, but not queries: image_id {}",
                    alone.len(),
                    TruncatedList::from_iter(&alone).join(", ")
                ),
            );
        }
        let order: Vec<usize> = order.into_iter().map(|(_, caption)| caption).collect();
        let captions = order.iter().map(|&caption| captions[caption]).collect();
        Ok((Self { images, captions, first_caption }, order))
    }

    /// Returns the collection that retrieval takes.
    pub(super) fn collection<'p>(&'p self, scores: &'p dyn ScoreSource) -> Collection<'p> {
        Collection {
            image_ids: &self.images,
            caption_ids: &self.captions,
            matches: Matches::Grouped(&self.first_caption),
            scores,
        }
    }
}

/// Index of each identifier.
pub(super) fn positions_by_id(ids: &[i64]) -> HashMap<i64, usize> {
    ids.iter().enumerate().map(|(place, &id)| (id, place)).collect()
}
