//! List columns: building them, and reading them without a copy.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{ArrowPrimitiveType, DataType, SchemaRef};

use super::values;
use pairloom_base::error::{Error, Result};

/// Builds the column `name` of `schema`: lists with these lengths from the concatenation of their values.
///
/// # Errors
/// The column is not a list of such values, or the lengths do not add up to the number of values.
pub fn list_array(
    schema: &SchemaRef,
    name: &str,
    lengths: impl IntoIterator<Item = usize>,
    values: ArrayRef,
) -> Result<ArrayRef> {
    let DataType::List(item) = schema.field_with_name(name)?.data_type() else {
        return Err(Error::internal(format!("column `{name}` is not a list")));
    };
    Ok(Arc::new(values::new_list_array(item.as_ref().clone(), lengths, values)?))
}

/// Reader of a column of lists of numbers without missing values.
#[derive(Debug)]
pub(super) struct ListReader<'b, T: ArrowPrimitiveType> {
    starts: &'b [i32],
    values: &'b [T::Native],
}

impl<'b, T: ArrowPrimitiveType> ListReader<'b, T> {
    /// Opens the column `name`.
    ///
    /// # Errors
    /// The column is missing or has another type, or a value is missing.
    pub(super) fn new(batch: &'b RecordBatch, name: &str) -> Result<Self> {
        let column = batch.column_by_name(name).ok_or_else(|| Error::data(format!("no column `{name}`")))?;
        let wrong = || Error::data(format!("column `{name}` is {}, wanted List<{}>", column.data_type(), T::DATA_TYPE));
        let lists = column.as_list_opt::<i32>().ok_or_else(wrong)?;
        let values: &PrimitiveArray<T> = lists.values().as_primitive_opt().ok_or_else(wrong)?;
        if lists.null_count() > 0 || values.null_count() > 0 {
            return Err(Error::data(format!("column `{name}` has missing values, wanted none")));
        }
        Ok(Self { starts: lists.value_offsets(), values: values.values() })
    }

    /// Returns the list of a row.
    ///
    /// # Errors
    /// An offset of the list is negative.
    pub(super) fn row(&self, row: usize) -> Result<&'b [T::Native]> {
        let offset = |at: usize| usize::try_from(self.starts[at]);
        let range = offset(row).and_then(|start| Ok(start..offset(row + 1)?));
        Ok(&self.values[range.map_err(|_| Error::data("a list column has a negative offset"))?])
    }
}
