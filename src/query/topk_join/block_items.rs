//! Items of a block in the form that the search reads.

use datafusion::common::plan_err;
use datafusion::error::Result;

use super::named_vectors::NamedVectors;
use crate::vectors::VectorMeasure;
use pairloom_kernels::distance::{VectorValues, l2_norm};
use pairloom_search::parallel_ranges;

/// Items of a block, as the search needs them.
pub(super) struct BlockItems {
    /// Rows that have a vector. Others are in no list.
    pub rows: Vec<usize>,
    /// Their vectors in f32, row-major, scaled to unit length for cosines; empty if there is no search for the measure.
    pub packed: Vec<f32>,
    /// Half the squared norm of each item for Euclidean distances: a·b − ‖b‖²/2 is larger if the distance is smaller.
    pub shifts: Vec<f64>,
    /// Largest norm of a packed item.
    largest_norm: f64,
    width: usize,
}

impl BlockItems {
    /// Items of a block.
    ///
    /// # Errors
    /// A vector of another width or with a value that is not finite.
    pub(super) fn new(measure: VectorMeasure, width: usize, block: &NamedVectors, threads: usize) -> Result<Self> {
        let norms = parallel_ranges(threads, block.len(), |part| {
            let norm = |row| {
                let Some(vector) = block.get(row) else { return Ok(None) };
                check_width(width, vector.len())?;
                let norm = l2_norm(vector);
                if !norm.is_finite() {
                    return Err(block.not_finite(row));
                }
                Ok((norm != 0.0 || !measure.is_cosine()).then_some((row, norm)))
            };
            part.filter_map(|row| norm(row).transpose()).collect::<Result<Vec<(usize, f64)>>>()
        });
        let kept = norms.into_iter().collect::<Result<Vec<_>>>()?.concat();
        let rows = kept.iter().map(|(row, _)| *row).collect();
        // The search takes no vectors of 0.
        let has_search = measure != VectorMeasure::L1Distance && kept.iter().all(|(_, norm)| *norm != 0.0);
        let mut items = Self { rows, packed: Vec::new(), shifts: Vec::new(), largest_norm: 0.0, width };
        if has_search {
            items.packed = packed(&kept, width, block, measure, threads);
            let norm_of = |norm: f64| if measure.is_cosine() { 1.0 } else { norm };
            items.largest_norm = kept.iter().fold(0.0, |largest, (_, norm)| norm_of(*norm).max(largest));
            if measure == VectorMeasure::L2Distance {
                items.shifts = kept.iter().map(|(_, norm)| norm * norm / 2.0).collect();
            }
        }
        Ok(items)
    }

    /// Bound on the difference of the key of the search and the exact key, for a query of this norm: vectors are rounded
    /// to f32, then the score and the key are.
    #[expect(clippy::cast_precision_loss, reason = "widths are far below 2⁵³")]
    pub(super) fn key_error(&self, query_norm: f64) -> f64 {
        let unit = f64::from(f32::EPSILON);
        let subnormal = f64::from(f32::MIN_POSITIVE) * (query_norm + self.largest_norm + 1.0);
        2.0 * unit * (query_norm * self.largest_norm + self.largest_norm * self.largest_norm)
            + subnormal * self.width as f64
    }
}

/// Vectors of some rows in f32, row-major, each divided by its norm for cosines.
fn packed(
    rows: &[(usize, f64)],
    width: usize,
    block: &NamedVectors,
    measure: VectorMeasure,
    threads: usize,
) -> Vec<f32> {
    let mut packed = vec![0.0; rows.len() * width];
    if packed.is_empty() {
        return packed;
    }
    let rows_each = rows.len().div_ceil(threads.max(1));
    std::thread::scope(|scope| {
        for (rows, packed) in rows.chunks(rows_each).zip(packed.chunks_mut(rows_each * width)) {
            scope.spawn(move || {
                for (&(row, norm), packed) in rows.iter().zip(packed.chunks_exact_mut(width)) {
                    if let Some(vector) = block.get(row) {
                        write_scaled(packed, vector, if measure.is_cosine() { norm } else { 1.0 });
                    }
                }
            });
        }
    });
    packed
}

/// Writes a vector divided by `scale`, in f32.
#[expect(clippy::cast_possible_truncation, reason = "the search is in f32, with a bound on its error")]
pub(super) fn write_scaled(packed: &mut [f32], vector: VectorValues<'_>, scale: f64) {
    // A division for each value would take longer than the search. The norm of a vector of f32 has a finite inverse.
    let factor = 1.0 / scale;
    match vector {
        VectorValues::F32(values) if scale == 1.0 => packed.copy_from_slice(values),
        VectorValues::F32(values) => {
            packed.iter_mut().zip(values).for_each(|(packed, &value)| *packed = (f64::from(value) * factor) as f32);
        }
        VectorValues::F64(values) => {
            packed.iter_mut().zip(values).for_each(|(packed, &value)| *packed = (value / scale) as f32);
        }
    }
}

pub(super) fn check_width(wanted: usize, got: usize) -> Result<()> {
    if got == wanted {
        return Ok(());
    }
    plan_err!("vectors of {wanted} and of {got} values, wanted vectors of one width")
}
