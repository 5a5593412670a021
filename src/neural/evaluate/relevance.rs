//! Relevance of images and captions in the order of the pool: φ of all pairs (graded), human ratings and judgements (binary).

use std::collections::HashMap;
use std::ops::Range;

use super::pool::{SplitPool, positions_by_id};
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_retrieval::{BinaryRelevance, RelevanceGrades};
use pairloom_stage::StageContext;
use pairloom_tables as tables;
use pairloom_tables::caption_similarity::{SimilarityRow, rows};

/// φ of images (rows) and captions (columns), f32, held once: 500 MB for COCO's 5,000 × 25,000.
#[derive(Debug)]
pub(super) struct SimilarityMatrix {
    values: Vec<f32>,
    n_captions: usize,
}

impl SimilarityMatrix {
    /// Reads φ of the pool from a `caption_similarity`. Pairs of other images and captions are ignored.
    ///
    /// Every pair of the pool must be there. A table of the best captions alone is an error: absent pairs would count
    /// as φ = 0, which makes the ideal sum of NCS too small and NCS too large by an unknown amount.
    ///
    /// # Errors
    /// A pair that is absent or has two values; φ below 0 or not finite; too little memory for the matrix.
    pub(super) fn read(cx: &mut StageContext<'_>, input: &str, pool: &SplitPool) -> Result<Self> {
        let (n_images, n_captions) = (pool.images.len(), pool.captions.len());
        let (images, captions) = (positions_by_id(&pool.images), positions_by_id(&pool.captions));
        // NaN marks an absent pair.
        let pairs = n_images * n_captions;
        let mut values = Vec::new();
        values.try_reserve_exact(pairs).map_err(|_| {
            Error::stage(format!("no memory for φ of {n_images} images with {n_captions} captions, 4 bytes a pair"))
        })?;
        values.resize(pairs, f32::NAN);
        let mut faults = TruncatedList::default();
        // In a dense table every row has the same captions, so their columns are looked up once.
        let (mut latest, mut columns): (Vec<i64>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
        while let Some(batch) = cx.read_next(input)? {
            for row in rows(&batch)? {
                let Some(&image) = images.get(&row.image_id) else { continue };
                if latest != row.caption_ids {
                    columns = row.caption_ids.iter().map(|id| captions.get(id).copied()).collect();
                    row.caption_ids.clone_into(&mut latest);
                }
                place_row(&row, &columns, &mut values[image * n_captions..(image + 1) * n_captions], &mut faults);
            }
        }
        let this = Self { values, n_captions };
        reject_faults(input, &faults)?;
        this.check_complete(input, pool)?;
        Ok(this)
    }

    fn check_complete(&self, input: &str, pool: &SplitPool) -> Result<()> {
        let mut faults = TruncatedList::default();
        let mut lacking = vec![0usize; self.n_captions];
        let mut present = 0;
        for (row, &image_id) in self.values.chunks_exact(self.n_captions).zip(&pool.images) {
            if row.iter().all(|phi| phi.is_nan()) {
                faults.push(format_args!("no row of image_id {image_id}"));
                continue;
            }
            present += 1;
            for (lacking, phi) in lacking.iter_mut().zip(row) {
                *lacking += usize::from(phi.is_nan());
            }
        }
        for (&lacking, caption_id) in lacking.iter().zip(&pool.captions) {
            if lacking == present && present > 0 {
                faults.push(format_args!("no value of caption_id {caption_id}"));
            } else if lacking > 0 {
                faults.push(format_args!("caption_id {caption_id} lacks {lacking} of {present} images"));
            }
        }
        reject_faults(input, &faults).map_err(|error| {
            error
                .hint("`pairs = \"dense\"` of `score_captions` writes φ of every image with every caption of the split")
        })
    }
}

impl RelevanceGrades for SimilarityMatrix {
    fn row(&self, image: usize, captions: &Range<usize>) -> &[f32] {
        &self.values[image * self.n_captions..][captions.clone()]
    }
}

/// Writes a row of the table to the columns of its captions in the pool.
fn place_row(row: &SimilarityRow<'_>, columns: &[Option<usize>], values: &mut [f32], faults: &mut TruncatedList) {
    for ((column, &phi), caption_id) in columns.iter().zip(row.similarities).zip(row.caption_ids) {
        let Some(column) = *column else { continue };
        let pair = || format!("image_id {} with caption_id {caption_id}", row.image_id);
        if !(phi >= 0.0 && phi.is_finite()) {
            faults.push(format_args!("{} has φ = {phi}, expected a number of at least 0", pair()));
        } else if !values[column].is_nan() {
            faults.push(format_args!("{} appears twice", pair()));
        }
        values[column] = phi;
    }
}

/// Fails if `faults` of the table `input` were found.
fn reject_faults(input: &str, faults: &TruncatedList) -> Result<()> {
    if faults.is_empty() {
        return Ok(());
    }
    Err(Error::data(format!("`{input}` cannot be used as relevance: {}", faults.join("; "))))
}

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

/// Number of judgements of unknown queries or items that a message shows, and of identifiers of the split.
const SHOWN: usize = 5;

/// Reads the judgements of the pool with a grade of at least `at_least`. Pairs without a judgement are not relevant.
///
/// Judgements whose query or item is not in the pool are left out with a warning, since they change the number of
/// relevant items.
///
/// # Errors
/// No judgement of the pool has a grade of `at_least`.
pub(super) fn read_judged_items(
    cx: &mut StageContext<'_>,
    input: &str,
    name: &str,
    at_least: f64,
    pool: &SplitPool,
) -> Result<BinaryRelevance> {
    let (images, captions) = (positions_by_id(&pool.images), positions_by_id(&pool.captions));
    let mut relevance = BinaryRelevance::without_pairs(name, images.len(), captions.len());
    let mut unknown = TruncatedList::new(SHOWN);
    let (mut judged, mut relevant, mut highest) = (0usize, 0usize, f64::NEG_INFINITY);
    while let Some(batch) = cx.read_next(input)? {
        let directions = tables::text_column(&batch, "direction")?;
        let (queries, items) = (tables::int_column(&batch, "query_id")?, tables::int_column(&batch, "item_id")?);
        let grades = tables::float_column(&batch, "grade")?;
        for row in 0..batch.num_rows() {
            judged += 1;
            let (query, item, grade) = (queries.value(row), items.value(row), grades.value(row));
            let (query_positions, item_positions, lists) = match directions.value(row) {
                "i2t" => (&images, &captions, &mut relevance.captions_of),
                _ => (&captions, &images, &mut relevance.images_of),
            };
            let (Some(&query), Some(&item)) = (query_positions.get(&query), item_positions.get(&item)) else {
                unknown.push(format_args!("{} query {query} with item {item}", directions.value(row)));
                continue;
            };
            highest = highest.max(grade);
            if grade >= at_least {
                lists[query].push(item);
                relevant += 1;
            }
        }
    }
    if relevant == 0 {
        return Err(if unknown.len() == judged {
            no_known_pair(input, judged, &unknown, pool)
        } else {
            let message = format!("`{input}` has no judgement of the split with a grade of {at_least} or higher");
            Error::data(message)
                .hint(format!("the highest grade is {highest}; `at_least` is the lowest of relevant items"))
        });
    }
    if !unknown.is_empty() {
        let message = format!(
            "{} of {judged} judgements are left out, since the split lacks their query or item: {}",
            unknown.len(),
            unknown.join(", ")
        );
        cx.warn(input, message);
    }
    Ok(relevance)
}

/// Error for judgements of other identifiers than those of the split.
fn no_known_pair(input: &str, judged: usize, unknown: &TruncatedList, pool: &SplitPool) -> Error {
    let first = |ids: &[i64]| TruncatedList::from_iter(ids.iter().take(SHOWN)).join(", ");
    Error::data(format!(
        "the split lacks the query or the item of all {judged} judgements of `{input}`: {}; expected identifiers of its \
         images, such as {}, and of its captions, such as {}",
        unknown.join(", "),
        first(&pool.images),
        first(&pool.captions)
    ))
    .hint(
        "`ingest` takes the identifiers of a data set from lists: `image_ids` and `caption_ids` of `embeddings`, \
         `test_caption_ids` of `precomp`",
    )
}
