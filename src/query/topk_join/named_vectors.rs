//! Vectors of rows that errors can name.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt64Array};
use arrow::compute::{take, take_record_batch};
use arrow::util::display::array_value_to_string;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;

use crate::vectors::{ListVectors, VectorMeasure};
use pairloom_base::error::Error;
use pairloom_kernels::distance::{VectorValues, l2_norm};

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
