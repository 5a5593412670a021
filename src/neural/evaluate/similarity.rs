//! Matrix of φ of all images with all captions of a split, in the order of the pool.

use std::ops::Range;

use super::pool::{SplitPool, positions_by_id};
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_retrieval::RelevanceGrades;
use pairloom_stage::StageContext;
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
        let (mut of, mut columns): (Vec<i64>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
        while let Some(batch) = cx.read_next(input)? {
            for row in rows(&batch)? {
                let Some(&image) = images.get(&row.image_id) else { continue };
                if of != row.caption_ids {
                    columns = row.caption_ids.iter().map(|id| captions.get(id).copied()).collect();
                    row.caption_ids.clone_into(&mut of);
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
            faults.push(format_args!("{} has φ = {phi}, wanted a number of at least 0", pair()));
        } else if !values[column].is_nan() {
            faults.push(format_args!("{} appears twice", pair()));
        }
        values[column] = phi;
    }
}

/// Fails if `faults` of the table `input` were found.
pub(super) fn reject_faults(input: &str, faults: &TruncatedList) -> Result<()> {
    if faults.is_empty() {
        return Ok(());
    }
    Err(Error::data(format!("`{input}` cannot be used as relevance: {}", faults.join("; "))))
}
