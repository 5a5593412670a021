//! Binary relevance from human ratings, in the order of the pool.

use std::collections::HashMap;

use super::pool::{SplitPool, positions_by_id};
use super::similarity::reject_faults;
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_retrieval::BinaryRelevance;
use pairloom_stage::StageContext;
use pairloom_tables as tables;

/// Reads the pairs of the pool with a rating of at least `at_least`: the mean, if several people rated a pair. Pairs
/// without a rating are not relevant.
///
/// # Errors
/// A rating that is not finite, or no relevant pair in the pool.
pub(super) fn read_relevant_pairs(
    cx: &mut StageContext<'_>,
    input: &str,
    name: &str,
    at_least: f64,
    pool: &SplitPool,
) -> Result<BinaryRelevance> {
    let (images, captions) = (positions_by_id(&pool.images), positions_by_id(&pool.captions));
    let mut relevance = BinaryRelevance::without_pairs(name, images.len(), captions.len());
    let mut faults = TruncatedList::default();
    // Pairs in the order of the table: identifiers, sum and number of ratings.
    let mut rated: Vec<((i64, i64), f64, f64)> = Vec::new();
    let mut places: HashMap<(i64, i64), usize> = HashMap::new();
    while let Some(batch) = cx.read_next(input)? {
        let (caption_ids, image_ids) =
            (tables::int_column(&batch, "caption_id")?, tables::int_column(&batch, "image_id")?);
        let ratings = tables::float_column(&batch, "rating")?;
        for row in 0..batch.num_rows() {
            let (caption_id, image_id, rating) = (caption_ids.value(row), image_ids.value(row), ratings.value(row));
            if !rating.is_finite() {
                faults.push(format_args!("caption_id {caption_id} with image_id {image_id} is rated {rating}"));
            }
            let place = *places.entry((caption_id, image_id)).or_insert_with(|| {
                rated.push(((caption_id, image_id), 0.0, 0.0));
                rated.len() - 1
            });
            rated[place].1 += rating;
            rated[place].2 += 1.0;
        }
    }
    reject_faults(input, &faults)?;
    let (mut outside, mut relevant) = (0usize, 0usize);
    for ((caption_id, image_id), sum, count) in &rated {
        let (Some(&caption), Some(&image)) = (captions.get(caption_id), images.get(image_id)) else {
            outside += 1;
            continue;
        };
        if sum / count >= at_least {
            relevance.captions_of[image].push(caption);
            relevance.images_of[caption].push(image);
            relevant += 1;
        }
    }
    if relevant == 0 {
        return Err(Error::data(format!("`{input}` has no pair of the split that is rated {at_least} or higher")));
    }
    if outside > 0 {
        let message = format!("{outside} of {} rated pairs are not of this split and left out", rated.len());
        cx.warn(input, message);
    }
    Ok(relevance)
}
