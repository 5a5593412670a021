//! Items of a block with their vectors, in the form that the search reads.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt64Array};
use arrow::compute::{take, take_record_batch};
use arrow::util::display::array_value_to_string;
use datafusion::common::plan_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;

use crate::vectors::{ListVectors, VectorMeasure};
use pairloom_base::error::Error;
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
    plan_err!("vectors of {wanted} and of {got} values, expected vectors of one width")
}

/// Vectors of the rows of one side of a join.
pub(super) struct NamedVectors {
    vectors: ListVectors,
    rows: RecordBatch,
    /// Column of the vectors, with its table.
    name: Arc<str>,
}

impl NamedVectors {
    /// Vectors of all rows.
    pub(super) fn new(vector: &Arc<dyn PhysicalExpr>, rows: RecordBatch, name: &Arc<str>) -> Result<Self> {
        let vectors = vector.evaluate(&rows)?.into_array(rows.num_rows())?;
        Ok(Self { vectors: ListVectors::new(&vectors)?, rows, name: Arc::clone(name) })
    }

    /// Vectors of the rows that have a measure with others, and the places of these rows.
    pub(super) fn measured(
        vector: &Arc<dyn PhysicalExpr>,
        rows: &RecordBatch,
        name: &Arc<str>,
        measure: VectorMeasure,
    ) -> Result<(Self, UInt64Array)> {
        let all = vector.evaluate(rows)?.into_array(rows.num_rows())?;
        let vectors = ListVectors::new(&all)?;
        let is_measured = |vector: VectorValues<'_>| !measure.is_cosine() || l2_norm(vector) != 0.0;
        let places = (0..vectors.len()).filter(|&row| vectors.get(row).is_some_and(is_measured));
        let places = UInt64Array::from_iter_values(places.map(|row| row as u64));
        let (rows, vectors) = if places.len() == rows.num_rows() {
            (rows.clone(), vectors)
        } else {
            (take_record_batch(rows, &places)?, ListVectors::new(&take(&all, &places, None)?)?)
        };
        Ok((Self { vectors, rows, name: Arc::clone(name) }, places))
    }

    pub(super) fn len(&self) -> usize {
        self.vectors.len()
    }

    /// Vector of a row, if it has one.
    pub(super) fn get(&self, row: usize) -> Option<VectorValues<'_>> {
        self.vectors.get(row)
    }

    pub(super) fn rows(&self) -> &RecordBatch {
        &self.rows
    }

    pub(super) fn into_rows(self) -> RecordBatch {
        self.rows
    }

    /// Error for a row whose vector is not finite.
    pub(super) fn not_finite(&self, row: usize) -> DataFusionError {
        let message = format!("SQL: the vector `{}`{} has a value that is not finite", self.name, self.row_name(row));
        let hint =
            "a condition leaves it out: `'t WHERE vector_norm(v) < 1e30'` in `topk_join`, `WHERE` in a lateral query";
        DataFusionError::External(Box::new(Error::usage(message).hint(hint)))
    }

    /// Identifier of a row, if a column of it was read.
    fn row_name(&self, row: usize) -> String {
        let schema = self.rows.schema();
        let ids = schema.fields().iter().position(|field| field.name() == "id" || field.name().ends_with("_id"));
        let text = ids.and_then(|at| Some((at, array_value_to_string(self.rows.column(at), row).ok()?)));
        text.map_or(String::new(), |(at, text)| format!(" of {} {text}", schema.field(at).name()))
    }
}
