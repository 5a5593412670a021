//! Sizes of values in memory and as text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, GenericListArray, OffsetSizeTrait};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};

/// Size of the view of a text, and of the start and the end of a list.
const VIEW_BYTES: u64 = 16;
/// Length of a value as text, if it is neither a text nor a number of binary digits.
const OTHER_TEXT_BYTES: u64 = 128;
/// Length of a number with a point as text, without the zeros next to the point.
const NUMBER_TEXT_BYTES: u64 = 25;

/// Size of the content of an array in bytes: that of a slice is its own, also of lists and of views of texts.
pub(super) fn content_bytes(array: &dyn Array) -> u64 {
    let rows = array.len() as u64;
    if let Some(items) = list_items(array) {
        return content_bytes(&items).saturating_add(rows.saturating_mul(VIEW_BYTES));
    }
    match array.data_type() {
        DataType::Utf8View => views(rows, array.as_string_view().iter().flatten().map(str::len)),
        DataType::BinaryView => views(rows, array.as_binary_view().iter().flatten().map(<[u8]>::len)),
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(|column| content_bytes(column)).fold(rows, u64::saturating_add)
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = dictionary.values();
            let keys = dictionary.normalized_keys();
            let sizes = keys.iter().enumerate().filter(|&(row, _)| dictionary.keys().is_valid(row));
            let sizes = sizes.map(|(_, &key)| content_bytes(&values.slice(key, 1)));
            sizes.fold(rows.saturating_mul(8), u64::saturating_add)
        }
        _ => array.to_data().get_slice_memory_size().map_or(0, |bytes| bytes as u64),
    }
}

/// Upper bound of the length of an array as text, in bytes, with so many bytes between two values.
pub(super) fn text_bytes(array: &dyn Array, between: u64) -> u64 {
    let rows = array.len() as u64;
    let separators = rows.saturating_mul(between);
    let values = if let Some(items) = list_items(array) {
        text_bytes(&items, between)
    } else {
        match array.data_type() {
            DataType::Float32 => numbers::<Float32Type>(array),
            DataType::Float64 => numbers::<Float64Type>(array),
            kind if kind.is_integer() => rows.saturating_mul(NUMBER_TEXT_BYTES),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => content_bytes(array),
            _ => content_bytes(array).saturating_add(rows.saturating_mul(OTHER_TEXT_BYTES)),
        }
    };
    values.saturating_add(separators)
}

/// Size of views, and of the texts that they show.
fn views(rows: u64, lengths: impl Iterator<Item = usize>) -> u64 {
    lengths.fold(rows.saturating_mul(VIEW_BYTES), |total, length| total.saturating_add(length as u64))
}

/// Items of lists; `None` for other values.
fn list_items(array: &dyn Array) -> Option<ArrayRef> {
    match array.data_type() {
        DataType::List(_) => Some(items_of(array.as_list::<i32>())),
        DataType::LargeList(_) => Some(items_of(array.as_list::<i64>())),
        DataType::FixedSizeList(..) => Some(Arc::clone(array.as_fixed_size_list().values())),
        _ => None,
    }
}

/// Items of lists, also of a slice.
fn items_of<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> ArrayRef {
    let (start, end) = (lists.value_offsets()[0].as_usize(), lists.value_offsets()[lists.len()].as_usize());
    lists.values().slice(start, end - start)
}

/// Length of numbers as text. All zeros of a large or small one are written: 1e300 has 301 digits.
fn numbers<T: ArrowPrimitiveType<Native: Into<f64>>>(array: &dyn Array) -> u64 {
    let zeros = |number: f64| {
        let exponent = i64::try_from((number.to_bits() >> 52) & 0x7ff).unwrap_or(0) - 1023;
        // Of a digit there are more than three powers of two.
        if number == 0.0 || !number.is_finite() { 0 } else { exponent.unsigned_abs() / 3 }
    };
    let array = array.as_primitive::<T>();
    array.iter().fold(0u64, |total, number| {
        total.saturating_add(NUMBER_TEXT_BYTES + number.map_or(0, |number| zeros(number.into())))
    })
}
