//! What people rated high enough to be relevant, in the order of the pool.

use std::collections::HashSet;

use super::pool::{Pool, places};
use super::similarity::refuse;
use crate::error::{Error, Result, TruncatedList};
use crate::retrieval::RelevantPairs;
use crate::stage::Cx;
use crate::tables;

/// Reads the pairs of the pool that are rated `at_least`. Pairs that nobody rated are not relevant.
///
/// # Errors
/// A pair that stands there twice, a rating that is no number, or no relevant pair in the pool.
pub(super) fn read(cx: &mut Cx<'_>, input: &str, name: &str, at_least: f64, pool: &Pool) -> Result<RelevantPairs> {
    let (images, captions) = (places(&pool.images), places(&pool.captions));
    let mut this = RelevantPairs {
        name: name.to_owned(),
        captions_of: vec![Vec::new(); images.len()],
        images_of: vec![Vec::new(); captions.len()],
    };
    let (mut seen, mut faults) = (HashSet::new(), TruncatedList::default());
    let (mut outside, mut relevant) = (0usize, 0usize);
    while let Some(batch) = cx.next(input)? {
        let (caption_ids, image_ids) = (tables::ids(&batch, "caption_id")?, tables::ids(&batch, "image_id")?);
        let ratings = tables::numbers(&batch, "rating")?;
        for row in 0..batch.num_rows() {
            let (caption_id, image_id, rating) = (caption_ids.value(row), image_ids.value(row), ratings.value(row));
            let pair = || format!("caption_id {caption_id} with image_id {image_id}");
            if !rating.is_finite() {
                faults.push(format_args!("{} is rated {rating}", pair()));
            }
            if !seen.insert((caption_id, image_id)) {
                faults.push(format_args!("{} stands there twice", pair()));
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
    refuse(input, &faults)?;
    if relevant == 0 {
        return Err(Error::data(format!("`{input}` has no pair of the split that is rated {at_least} or higher")));
    }
    if outside > 0 {
        let message = format!("{outside} of {} rated pairs are not of this split and left out", seen.len());
        cx.warn(input, message);
    }
    Ok(this)
}
