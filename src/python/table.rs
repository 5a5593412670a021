//! Tables of results, which any library reads through the Arrow `PyCapsule` interface.

use std::sync::Arc;

use arrow::array::{RecordBatch, StructArray};
use arrow::datatypes::{Field, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::ArrayWriter;
use arrow::util::pretty::pretty_format_batches;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::ffi::{ArrayIterator, ArrayReader, to_stream_pycapsule};

/// Rows that `repr` shows.
const SHOWN_ROWS: usize = 20;

/// Table of a result. `polars.DataFrame(table)`, `pyarrow.table(table)` and DuckDB read it without a copy.
#[pyclass(frozen, module = "pairloom")]
pub(crate) struct Table {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    pub(crate) fn of(batch: RecordBatch) -> Self {
        Self { schema: batch.schema(), batches: vec![batch] }
    }

    fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The first rows.
    fn head(&self) -> Vec<RecordBatch> {
        let mut left = SHOWN_ROWS;
        let mut head = Vec::new();
        for batch in &self.batches {
            let rows = batch.num_rows().min(left);
            head.push(batch.slice(0, rows));
            left -= rows;
        }
        head
    }
}

fn failed(error: &ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

#[pymethods]
impl Table {
    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.rows()
    }

    /// The rows as JSON: a list of objects.
    fn to_json(&self) -> PyResult<String> {
        let mut writer = ArrayWriter::new(Vec::new());
        let written = self.batches.iter().try_for_each(|batch| writer.write(batch)).and_then(|()| writer.finish());
        written.map_err(|error| failed(&error))?;
        String::from_utf8(writer.into_inner()).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    fn __repr__(&self) -> PyResult<String> {
        let head = pretty_format_batches(&self.head()).map_err(|error| failed(&error))?;
        let rows = self.rows();
        Ok(if rows > SHOWN_ROWS { format!("{head}\nfirst {SHOWN_ROWS} of {rows} rows") } else { head.to_string() })
    }

    /// The stream of the Arrow `PyCapsule` interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let field = Arc::new(Field::new_struct("", self.schema.fields().clone(), false));
        let arrays = self.batches.clone().into_iter().map(|batch| Ok(Arc::new(StructArray::from(batch)) as _));
        let reader: Box<dyn ArrayReader + Send> = Box::new(ArrayIterator::new(arrays, field));
        to_stream_pycapsule(py, reader, requested_schema).map_err(PyErr::from)
    }
}
