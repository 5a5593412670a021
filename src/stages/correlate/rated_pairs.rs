//! Ratings of pairs, and φ of each pair.

use std::collections::{BTreeMap, HashMap};

use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_stage::StageContext;
use pairloom_tables as tables;
use pairloom_tables::caption_similarity::rows;

/// Ratings in the order of the table. A pair has several if several people rated it.
#[derive(Debug, Default)]
pub(super) struct RatedPairs {
    pub(super) ratings: Vec<f64>,
    pub(super) samplings: Vec<String>,
    /// Index of the pair of each rating.
    pub(super) pair_of: Vec<usize>,
    /// (`image_id`, `caption_id`) of each pair, in the order of their first ratings.
    ids: Vec<(i64, i64)>,
    /// Pairs of each image: (`caption_id`, index of the pair), sorted.
    pairs_by_image: BTreeMap<i64, Vec<(i64, usize)>>,
}

impl RatedPairs {
    /// Reads all ratings.
    ///
    /// # Errors
    /// A rating that is not finite, or no rating at all.
    pub(super) fn read(cx: &mut StageContext<'_>) -> Result<Self> {
        let mut this = Self::default();
        let (mut places, mut faults) = (HashMap::new(), TruncatedList::default());
        while let Some(batch) = cx.read_next("ratings")? {
            let (captions, images) =
                (tables::int_column(&batch, "caption_id")?, tables::int_column(&batch, "image_id")?);
            let (ratings, samplings) =
                (tables::float_column(&batch, "rating")?, tables::text_column(&batch, "sampling")?);
            for row in 0..batch.num_rows() {
                let (caption_id, image_id, rating) = (captions.value(row), images.value(row), ratings.value(row));
                if !rating.is_finite() {
                    let row = this.ratings.len();
                    faults.push(format!("row {row}: the rating is {rating}, wanted a finite number"));
                }
                this.ratings.push(rating);
                this.samplings.push(samplings.value(row).to_owned());
                let next = this.ids.len();
                let pair = *places.entry((image_id, caption_id)).or_insert(next);
                if pair == next {
                    this.ids.push((image_id, caption_id));
                    this.pairs_by_image.entry(image_id).or_default().push((caption_id, pair));
                }
                this.pair_of.push(pair);
            }
        }
        if !faults.is_empty() {
            return Err(Error::data(format!("`ratings` cannot be used: {}", faults.join("; "))));
        }
        if this.ratings.is_empty() {
            return Err(Error::data("`ratings` has no rows, so there is nothing to correlate with"));
        }
        for pairs in this.pairs_by_image.values_mut() {
            pairs.sort_unstable();
        }
        Ok(this)
    }

    /// Reads φ of the pair of every rating from a `caption_similarity`, dense or not. The table is streamed; only φ of
    /// rated pairs is kept.
    ///
    /// # Errors
    /// A pair without φ or with two, or φ that is not finite.
    pub(super) fn similarities(&self, cx: &mut StageContext<'_>, input: &str) -> Result<Vec<f64>> {
        let mut found: Vec<Option<f64>> = vec![None; self.ids.len()];
        let mut faults = TruncatedList::default();
        while let Some(batch) = cx.read_next(input)? {
            for row in rows(&batch)? {
                let Some(pairs) = self.pairs_by_image.get(&row.image_id) else { continue };
                for (caption_id, &phi) in row.caption_ids.iter().zip(row.similarities) {
                    let Ok(at) = pairs.binary_search_by_key(caption_id, |pair| pair.0) else { continue };
                    let fault =
                        |what: String| format!("caption_id {caption_id} with image_id {}: {what}", row.image_id);
                    if !phi.is_finite() {
                        faults.push(fault(format!("φ is {phi}, wanted a finite number")));
                    }
                    if found[pairs[at].1].replace(f64::from(phi)).is_some() {
                        faults.push(fault("φ appears twice".to_owned()));
                    }
                }
            }
        }
        if !faults.is_empty() {
            return Err(Error::data(format!("`{input}` cannot be used: {}", faults.join("; "))));
        }
        let lacking: TruncatedList = self
            .ids
            .iter()
            .zip(&found)
            .filter(|(_, phi)| phi.is_none())
            .map(|((image_id, caption_id), _)| format!("caption_id {caption_id} with image_id {image_id}"))
            .collect();
        if !lacking.is_empty() {
            let (n, all) = (lacking.len(), self.ids.len());
            return Err(Error::data(format!("`{input}` lacks {n} of {all} rated pairs: {}", lacking.join("; "))).hint(
                "`score_captions` writes φ of these pairs with `pairs = { table = … }`, and of all pairs with `pairs = \"dense\"`",
            ));
        }
        Ok(self.pair_of.iter().filter_map(|&pair| found[pair]).collect())
    }
}
