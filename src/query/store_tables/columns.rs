//! Columns of the tables of the schema `store`.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, TimestampMillisecondArray};

/// Columns with their names, in order.
pub(super) type NamedColumns = Vec<(&'static str, ArrayRef)>;

pub(super) fn text_array<T: AsRef<str>>(values: impl Iterator<Item = Option<T>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

pub(super) fn float_array(values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    Arc::new(values.collect::<Float64Array>())
}

pub(super) fn bool_array(values: impl Iterator<Item = bool>) -> ArrayRef {
    Arc::new(values.map(Some).collect::<BooleanArray>())
}

/// Whole numbers; null for a missing number, and for one above 2⁶³ - 1.
pub(super) fn int_array(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(values.map(|value| value.and_then(|value| i64::try_from(value).ok())).collect::<Int64Array>())
}

pub(super) fn timestamp_array(values: impl Iterator<Item = Option<jiff::Timestamp>>) -> ArrayRef {
    let times: TimestampMillisecondArray = values.map(|time| time.map(jiff::Timestamp::as_millisecond)).collect();
    Arc::new(times.with_timezone("+00:00"))
}
