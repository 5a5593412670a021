//! Builder of tables whose rows are structs. Each column is described next to the code that reads its values from a
//! row, so two columns cannot be swapped by mistake.

use std::borrow::Cow;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use az::SaturatingAs;

use super::values::{ColumnValues, Nullable, batch_of_columns, describe_column};
use super::{Column, Table};
use pairloom_base::error::Result;

/// Columns with their values, in order. Without rows, they describe the table.
#[derive(Default)]
pub(super) struct TableBuilder(Vec<(Column, ArrayRef)>);

impl TableBuilder {
    /// Adds the column `name` with its description and values.
    #[must_use]
    pub(super) fn with<V: ColumnValues>(
        mut self,
        name: impl Into<Cow<'static, str>>,
        description: impl Into<Cow<'static, str>>,
        values: V,
    ) -> Self {
        self.0.push((describe_column::<V>(name, description), values.into_array()));
        self
    }

    /// Returns the description of the table.
    pub(super) fn table(self, name: &'static str, description: &'static str) -> Table {
        Table { name, description, columns: self.0.into_iter().map(|(column, _)| column).collect() }
    }

    /// Builds a batch of the rows.
    pub(super) fn batch(self) -> Result<RecordBatch> {
        batch_of_columns(self.0.into_iter().map(|(column, values)| (column.field(), values)).collect())
    }
}

pub(super) fn texts<'r, R>(rows: &'r [R], get: impl Fn(&'r R) -> &'r str) -> StringArray {
    StringArray::from_iter_values(rows.iter().map(get))
}

pub(super) fn optional_texts<'r, R>(rows: &'r [R], get: impl Fn(&'r R) -> Option<&'r str>) -> Nullable<StringArray> {
    Nullable(rows.iter().map(get).collect())
}

pub(super) fn counts<R>(rows: &[R], get: impl Fn(&R) -> usize) -> Int64Array {
    Int64Array::from_iter_values(rows.iter().map(|row| get(row).saturating_as::<i64>()))
}

pub(super) fn optional_counts<R>(rows: &[R], get: impl Fn(&R) -> Option<usize>) -> Nullable<Int64Array> {
    Nullable(rows.iter().map(|row| get(row).map(SaturatingAs::saturating_as)).collect())
}

pub(super) fn ids<R>(rows: &[R], get: impl Fn(&R) -> i64) -> Int64Array {
    Int64Array::from_iter_values(rows.iter().map(get))
}

pub(super) fn floats<R>(rows: &[R], get: impl Fn(&R) -> f64) -> Float64Array {
    Float64Array::from_iter_values(rows.iter().map(get))
}

pub(super) fn optional_floats<R>(rows: &[R], get: impl Fn(&R) -> Option<f64>) -> Nullable<Float64Array> {
    Nullable(rows.iter().map(get).collect())
}

pub(super) fn flags<R>(rows: &[R], get: impl Fn(&R) -> bool) -> BooleanArray {
    rows.iter().map(|row| Some(get(row))).collect()
}

pub(super) fn optional_flags<R>(rows: &[R], get: impl Fn(&R) -> Option<bool>) -> Nullable<BooleanArray> {
    Nullable(rows.iter().map(get).collect())
}
