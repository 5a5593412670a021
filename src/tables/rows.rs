//! Columns of rows that are structs: each is described beside what it takes of a row, so that no two can be swapped unseen.

use std::borrow::Cow;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use az::SaturatingAs;

use super::values::{Optional, Values, described, of_columns};
use super::{Column, Table};
use crate::error::Result;

/// Columns with their values, in order. Without rows they describe the table.
#[derive(Default)]
pub(super) struct RowColumns(Vec<(Column, ArrayRef)>);

impl RowColumns {
    /// Adds the column `name`, which means `about`.
    #[must_use]
    pub(super) fn with<V: Values>(
        mut self,
        name: impl Into<Cow<'static, str>>,
        about: impl Into<Cow<'static, str>>,
        values: V,
    ) -> Self {
        self.0.push((described::<V>(name, about), values.into_array()));
        self
    }

    /// The table of these columns.
    pub(super) fn table(self, name: &'static str, about: &'static str) -> Table {
        Table { name, about, columns: self.0.into_iter().map(|(column, _)| column).collect() }
    }

    /// The rows as a batch.
    pub(super) fn batch(self) -> Result<RecordBatch> {
        of_columns(self.0.into_iter().map(|(column, values)| (column.field(), values)).collect())
    }
}

pub(super) fn texts<'r, R>(rows: &'r [R], get: impl Fn(&'r R) -> &'r str) -> StringArray {
    StringArray::from_iter_values(rows.iter().map(get))
}

pub(super) fn optional_texts<'r, R>(rows: &'r [R], get: impl Fn(&'r R) -> Option<&'r str>) -> Optional<StringArray> {
    Optional(rows.iter().map(get).collect())
}

pub(super) fn counts<R>(rows: &[R], get: impl Fn(&R) -> usize) -> Int64Array {
    Int64Array::from_iter_values(rows.iter().map(|row| get(row).saturating_as::<i64>()))
}

pub(super) fn optional_counts<R>(rows: &[R], get: impl Fn(&R) -> Option<usize>) -> Optional<Int64Array> {
    Optional(rows.iter().map(|row| get(row).map(SaturatingAs::saturating_as)).collect())
}

pub(super) fn ids<R>(rows: &[R], get: impl Fn(&R) -> i64) -> Int64Array {
    Int64Array::from_iter_values(rows.iter().map(get))
}

pub(super) fn floats<R>(rows: &[R], get: impl Fn(&R) -> f64) -> Float64Array {
    Float64Array::from_iter_values(rows.iter().map(get))
}

pub(super) fn optional_floats<R>(rows: &[R], get: impl Fn(&R) -> Option<f64>) -> Optional<Float64Array> {
    Optional(rows.iter().map(get).collect())
}

pub(super) fn flags<R>(rows: &[R], get: impl Fn(&R) -> bool) -> BooleanArray {
    rows.iter().map(|row| Some(get(row))).collect()
}

pub(super) fn optional_flags<R>(rows: &[R], get: impl Fn(&R) -> Option<bool>) -> Optional<BooleanArray> {
    Optional(rows.iter().map(get).collect())
}
