//! Matrices of f32 that Python owns: arrays of numpy, and fixed-size lists of Arrow. They are read in place.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field, Float32Type};
use numpy::{PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3_arrow::input::AnyArray;

use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_search::parallel_ranges;

/// Largest difference of the norm of a unit vector from 1.
const NORM_TOLERANCE: f64 = 1e-2;

/// Matrix of f32, row-major: a row is a vector.
pub(crate) enum Matrix<'py> {
    /// A C-contiguous array of numpy.
    Numpy(PyReadonlyArray2<'py, f32>),
    /// A column of Arrow.
    Arrow(FixedSizeListArray),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Matrix<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = object.extract::<PyReadonlyArray2<'py, f32>>() {
            if !array.is_c_contiguous() {
                return Err(PyValueError::new_err("got an array with strides, expected a C-contiguous one"));
            }
            return Ok(Self::Numpy(array));
        }
        let Ok(array) = object.extract::<AnyArray>() else {
            let kind = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "got {kind}, expected an array of float32 with two dimensions, or a column of Arrow with fixed-size lists"
            )));
        };
        let (chunks, field) = array.into_chunked_array().map_err(PyErr::from)?.into_inner();
        vectors(&chunks, field.data_type()).map(Self::Arrow).map_err(|error| crate::exception(&error))
    }
}

/// One array of fixed-size lists of f32. Only one chunk of this type is taken without a copy.
fn vectors(chunks: &[ArrayRef], kind: &DataType) -> Result<FixedSizeListArray> {
    let wrong = |what: String| Error::data(format!("got a column of Arrow with {what}, expected vectors of float32"));
    let parts: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
    let whole = match chunks {
        [] => return Err(wrong("no rows".to_owned())),
        [one] => Arc::clone(one),
        _ => concat(&parts).map_err(|error| wrong(error.to_string()))?,
    };
    let width = match kind {
        DataType::FixedSizeList(_, width) => *width,
        // The first row gives the width; a row of another fails.
        DataType::List(_) if !whole.is_empty() => whole.as_list::<i32>().value_length(0),
        DataType::LargeList(_) if !whole.is_empty() => {
            i32::try_from(whole.as_list::<i64>().value_length(0)).unwrap_or(0)
        }
        other => return Err(wrong(format!("the type {other}"))),
    };
    let expected = DataType::FixedSizeList(Arc::new(Field::new_list_field(DataType::Float32, true)), width);
    let array = cast(&whole, &expected).map_err(|error| wrong(format!("the type {kind}: {error}")))?;
    let array = array.as_fixed_size_list().clone();
    let nulls = array.null_count() + array.values().null_count();
    if nulls > 0 {
        return Err(wrong(format!("{nulls} nulls")));
    }
    Ok(array)
}

impl Matrix<'_> {
    /// Rows and columns.
    pub(crate) fn shape(&self) -> [usize; 2] {
        match self {
            Self::Numpy(array) => [array.shape()[0], array.shape()[1]],
            Self::Arrow(array) => [array.len(), usize::try_from(array.value_length()).unwrap_or(0)],
        }
    }

    /// The values, row by row.
    pub(crate) fn values(&self) -> PyResult<&[f32]> {
        match self {
            Self::Numpy(array) => Ok(array.as_slice()?),
            Self::Arrow(array) => {
                let [rows, width] = self.shape();
                let start = usize::try_from(array.value_offset(0)).unwrap_or(0);
                Ok(&array.values().as_primitive::<Float32Type>().values()[start..][..rows * width])
            }
        }
    }
}

/// Matrix without the lock of the interpreter: its values and its width.
#[derive(Clone, Copy)]
pub(crate) struct Vectors<'v> {
    pub(crate) values: &'v [f32],
    pub(crate) width: usize,
}

impl<'v> Vectors<'v> {
    pub(crate) fn new(matrix: &'v Matrix<'_>) -> PyResult<Self> {
        Ok(Self { values: matrix.values()?, width: matrix.shape()[1] })
    }

    pub(crate) fn rows(self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// Checks that all vectors have the length 1, which the cosine needs.
    pub(crate) fn check_norms(self, name: &str, threads: usize) -> Result<()> {
        let norm = |row: &[f32]| row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        // Other norms than finite ones are found by the search, which names the value.
        let wrong = parallel_ranges(threads, self.rows(), |rows| {
            let rows = rows.map(|row| (row, norm(&self.values[row * self.width..][..self.width])));
            rows.filter(|(_, norm)| norm.is_finite() && (norm - 1.0).abs() > NORM_TOLERANCE).collect::<Vec<_>>()
        });
        let mut mistakes = ValidationErrors::in_table(name);
        for (row, norm) in wrong.into_iter().flatten() {
            mistakes.add(format_args!("row {row}"), format_args!("got a vector of length {norm:.4}, expected 1"));
        }
        mistakes.hint("`normalize=True` divides each vector by its length");
        mistakes.into_result()
    }
}
