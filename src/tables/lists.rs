//! Columns of lists: made from their values, and read without a copy.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{ArrowPrimitiveType, DataType, SchemaRef};

use super::values;
use crate::error::{Error, Result};

/// The column `name` of `schema`, whose lists have these lengths, from the values of all of them.
///
/// # Errors
/// The column is no list of such values, or the lengths do not add up to the values.
pub fn list(
    schema: &SchemaRef,
    name: &str,
    lengths: impl IntoIterator<Item = usize>,
    values: ArrayRef,
) -> Result<ArrayRef> {
    let DataType::List(item) = schema.field_with_name(name)?.data_type() else {
        return Err(Error::internal(format!("column `{name}` is a list")));
    };
    Ok(Arc::new(values::list(item.as_ref().clone(), lengths, values)?))
}

/// A column of lists of numbers, none of them missing.
#[derive(Debug)]
pub(super) struct ListReader<'b, T: ArrowPrimitiveType> {
    starts: &'b [i32],
    values: &'b [T::Native],
}

impl<'b, T: ArrowPrimitiveType> ListReader<'b, T> {
    /// The column `name`.
    ///
    /// # Errors
    /// No such column, one of another type, or a missing value.
    pub(super) fn of(batch: &'b RecordBatch, name: &str) -> Result<Self> {
        let column = batch.column_by_name(name).ok_or_else(|| Error::data(format!("no column `{name}`")))?;
        let wrong = || Error::data(format!("column `{name}` is {}, wanted List<{}>", column.data_type(), T::DATA_TYPE));
        let lists = column.as_list_opt::<i32>().ok_or_else(wrong)?;
        let values: &PrimitiveArray<T> = lists.values().as_primitive_opt().ok_or_else(wrong)?;
        if lists.null_count() > 0 || values.null_count() > 0 {
            return Err(Error::data(format!("column `{name}` has missing values, wanted one for every place")));
        }
        Ok(Self { starts: lists.value_offsets(), values: values.values() })
    }

    /// The list of a row.
    ///
    /// # Errors
    /// The column says that it begins before its values.
    pub(super) fn row(&self, row: usize) -> Result<&'b [T::Native]> {
        let place = |at: usize| usize::try_from(self.starts[at]);
        let range = place(row).and_then(|start| Ok(start..place(row + 1)?));
        Ok(&self.values[range.map_err(|_| Error::data("a list begins before its column"))?])
    }
}
