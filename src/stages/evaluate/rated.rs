//! What people rated high enough to be relevant, in the order of the pool.

use std::collections::HashSet;
use std::ops::Range;

use super::pool::Pool;
use super::rows::Direction;
use super::similarity::Faults;
use crate::error::{Error, Result};
use crate::stage::Cx;
use crate::tables;

/// The relevant pairs of a split: captions of each image, images of each caption.
#[derive(Debug)]
pub(super) struct Rated {
    captions_of: Vec<Vec<usize>>,
    images_of: Vec<Vec<usize>>,
}

impl Rated {
    /// Reads the pairs of the pool that are rated `at_least`. Pairs that nobody rated are not relevant.
    ///
    /// # Errors
    /// A pair that stands there twice, a rating that is no number, or no relevant pair in the pool.
    pub(super) fn read(cx: &mut Cx<'_>, input: &str, at_least: f64, pool: &Pool) -> Result<Self> {
        let (images, captions) = (pool.images.places(), pool.captions.places());
        let mut this =
            Self { captions_of: vec![Vec::new(); images.len()], images_of: vec![Vec::new(); captions.len()] };
        let (mut seen, mut faults) = (HashSet::new(), Faults::default());
        let (mut outside, mut relevant) = (0usize, 0usize);
        cx.rewind(input)?;
        while let Some(batch) = cx.next(input)? {
            let (caption_ids, image_ids) = (tables::ids(&batch, "caption_id")?, tables::ids(&batch, "image_id")?);
            let ratings = tables::numbers(&batch, "rating")?;
            for row in 0..batch.num_rows() {
                let (caption_id, image_id, rating) = (caption_ids.value(row), image_ids.value(row), ratings.value(row));
                let pair = || format!("caption_id {caption_id} with image_id {image_id}");
                if !rating.is_finite() {
                    faults.add(|| format!("{} is rated {rating}", pair()));
                }
                if !seen.insert((caption_id, image_id)) {
                    faults.add(|| format!("{} stands there twice", pair()));
                    continue;
                }
                let (Some(&caption), Some(&image)) = (captions.get(&caption_id), images.get(&image_id)) else {
                    outside += 1;
                    continue;
                };
                if rating >= at_least {
                    this.captions_of[image].push(caption);
                    this.images_of[caption].push(image);
                    relevant += 1;
                }
            }
        }
        faults.fail(input)?;
        if relevant == 0 {
            return Err(Error::data(format!("`{input}` has no pair of the split that is rated {at_least} or higher")));
        }
        if outside > 0 {
            let message = format!("{outside} of {} rated pairs are not of this split and left out", seen.len());
            cx.warn(input, message);
        }
        Ok(this)
    }

    /// The relevant items of each query of a direction of the fold of these images, numbered as in the fold.
    pub(super) fn of_fold(&self, pool: &Pool, images: &Range<usize>, direction: Direction) -> Vec<Vec<usize>> {
        let captions = pool.captions_of(images);
        let (queries, items, relevant) = match direction {
            Direction::ImageToText => (images.clone(), captions, &self.captions_of),
            Direction::TextToImage => (captions, images.clone(), &self.images_of),
        };
        relevant[queries]
            .iter()
            .map(|of| of.iter().filter(|item| items.contains(item)).map(|item| item - items.start).collect())
            .collect()
    }
}
