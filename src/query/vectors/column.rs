//! Vectors of a column: lists of numbers, of fixed or varying length.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use az::SaturatingAs;
use datafusion::common::exec_err;
use datafusion::error::Result;

use pairloom_kernels::distance::VectorValues;

/// Vectors of a column. Reading one copies nothing if its values are f32 or f64.
#[derive(Debug)]
pub(crate) struct ListVectors {
    array: ArrayRef,
    values: ListValues,
    rows: RowRanges,
}

#[derive(Debug)]
enum ListValues {
    Singles(Float32Array),
    Doubles(Float64Array),
}

/// Ranges of the values of each row.
#[derive(Debug)]
enum RowRanges {
    Fixed(usize),
    Offsets(OffsetBuffer<i64>),
}

impl ListVectors {
    /// Views a column of vectors. Halves become f32, and whole numbers f64.
    pub(crate) fn new(array: &ArrayRef) -> Result<Self> {
        let (values, rows) = match array.data_type() {
            DataType::FixedSizeList(_, width) => {
                (array.as_fixed_size_list().values(), RowRanges::Fixed((*width).saturating_as::<usize>()))
            }
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let offsets = list.value_offsets().iter().map(|&offset| i64::from(offset));
                (list.values(), RowRanges::Offsets(OffsetBuffer::new(offsets.collect())))
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (list.values(), RowRanges::Offsets(list.offsets().clone()))
            }
            other => return exec_err!("got {other}, expected a vector: a list of numbers"),
        };
        let is_single = matches!(values.data_type(), DataType::Float16 | DataType::Float32);
        let values = cast(values, if is_single { &DataType::Float32 } else { &DataType::Float64 })?;
        let values = if is_single {
            ListValues::Singles(values.as_primitive().clone())
        } else {
            ListValues::Doubles(values.as_primitive().clone())
        };
        Ok(Self { array: Arc::clone(array), values, rows })
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.array.len()
    }

    /// Vector of a row; `None` if it is missing, or has a missing value.
    pub(crate) fn get(&self, row: usize) -> Option<VectorValues<'_>> {
        if self.array.is_null(row) {
            return None;
        }
        let range = match &self.rows {
            RowRanges::Fixed(width) => row * width..(row + 1) * width,
            RowRanges::Offsets(offsets) => {
                offsets[row].saturating_as::<usize>()..offsets[row + 1].saturating_as::<usize>()
            }
        };
        let nulls = match &self.values {
            ListValues::Singles(values) => values.nulls(),
            ListValues::Doubles(values) => values.nulls(),
        };
        if nulls.is_some_and(|nulls| nulls.slice(range.start, range.len()).null_count() > 0) {
            return None;
        }
        Some(match &self.values {
            ListValues::Singles(values) => VectorValues::F32(&values.values()[range]),
            ListValues::Doubles(values) => VectorValues::F64(&values.values()[range]),
        })
    }
}

/// Type of the numbers of a vector type; `None` if it is no list of numbers.
pub(crate) fn number_type(vectors: &DataType) -> Option<&DataType> {
    match vectors {
        DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item) => {
            let is_empty = *item.data_type() == DataType::Null;
            (is_empty || item.data_type().is_numeric()).then_some(item.data_type())
        }
        _ => None,
    }
}

/// Type of vectors of f32 or f64 with the lists of `vectors`.
pub(super) fn float_vectors(vectors: &DataType) -> DataType {
    let of = |item: &Field| {
        let is_single = matches!(item.data_type(), DataType::Float16 | DataType::Float32);
        let number = if is_single { DataType::Float32 } else { DataType::Float64 };
        Arc::new(Field::new(item.name(), number, true))
    };
    match vectors {
        DataType::FixedSizeList(item, width) => DataType::FixedSizeList(of(item), *width),
        DataType::LargeList(item) => DataType::LargeList(of(item)),
        DataType::List(item) => DataType::List(of(item)),
        _ => DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true))),
    }
}
