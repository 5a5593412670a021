//! Columns of a Parquet file as the library gives them out: in the types of Arrow, which the file itself may choose.

use arrow::datatypes::{DataType, Schema};
use az::SaturatingAs as _;

use super::levels::WINDOW_ROWS;

/// Bytes of a value whose type does not say it: the largest number.
pub(super) const NUMBER_BYTES: u64 = 8;

/// Column of a Parquet file, with what its type in Arrow adds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArrowColumn {
    /// True for texts, and for dictionaries of them.
    pub is_text: bool,
    /// Bytes of a value besides its text.
    pub(super) bytes: u64,
    /// Product of the lengths of the lists of fixed size around the values; 0 without such a list.
    length: u64,
    /// True if these are in lists of other lengths, so that a row may have many of them.
    are_in_lists: bool,
}

impl ArrowColumn {
    /// Bytes of the space for `missing` lists of fixed size in a batch. Space for all values of such a list is reserved.
    pub(super) fn space(self, missing: u64) -> u64 {
        let missing = if self.are_in_lists { missing } else { missing.min(WINDOW_ROWS) };
        missing.saturating_mul(self.length).saturating_mul(self.bytes)
    }
}

/// Columns of a schema, in the order of the columns of the file: each value of a group is a column.
#[must_use]
pub fn arrow_columns(schema: &Schema) -> Vec<ArrowColumn> {
    let mut found = Vec::new();
    for field in schema.fields() {
        add_columns(field.data_type(), ArrowColumn::default(), &mut found);
    }
    found
}

fn add_columns(kind: &DataType, around: ArrowColumn, found: &mut Vec<ArrowColumn>) {
    match kind {
        DataType::FixedSizeList(field, length) => {
            let length = u64::try_from(*length).unwrap_or(0).saturating_mul(around.length.max(1));
            add_columns(field.data_type(), ArrowColumn { length, ..around }, found);
        }
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::Map(field, _) => {
            add_columns(field.data_type(), ArrowColumn { are_in_lists: true, ..around }, found);
        }
        DataType::Struct(fields) => fields.iter().for_each(|field| add_columns(field.data_type(), around, found)),
        kind => found.push(ArrowColumn { is_text: is_text(kind), bytes: value_bytes(kind), ..around }),
    }
}

/// Bytes of a value of a type, besides its text.
fn value_bytes(kind: &DataType) -> u64 {
    match kind {
        DataType::Dictionary(_, values) => value_bytes(values),
        DataType::FixedSizeBinary(bytes) => (*bytes).saturating_as(),
        DataType::Utf8View | DataType::BinaryView => size_of::<u128>() as u64,
        kind => kind.primitive_width().map_or(NUMBER_BYTES, |bytes| bytes as u64),
    }
}

fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{Field, Fields};

    use super::*;

    #[test]
    fn texts_and_lists_of_fixed_size_are_found_for_each_column() {
        let field = |kind| Arc::new(Field::new("x", kind, true));
        let fixed = |kind, length| DataType::FixedSizeList(field(kind), length);
        let list = |kind| DataType::List(field(kind));
        let pair = DataType::Struct(Fields::from(vec![field(DataType::Utf8), field(fixed(DataType::Float32, 3))]));
        let schema = Schema::new(vec![
            field(DataType::Int64),
            field(fixed(fixed(DataType::Float32, 5), 7)),
            field(list(fixed(DataType::Float32, 4))),
            field(fixed(pair, 2)),
            field(DataType::Decimal256(50, 2)),
            field(fixed(DataType::FixedSizeBinary(1_000), 7)),
        ]);
        let wanted = [
            (0, false, false, 8),
            (35, false, false, 4),
            (4, true, false, 4),
            (2, false, true, 8),
            (6, false, false, 4),
            (0, false, false, 32),
            (7, false, false, 1_000),
        ];
        let wanted =
            wanted.map(|(length, are_in_lists, is_text, bytes)| ArrowColumn { is_text, bytes, length, are_in_lists });
        assert_eq!(arrow_columns(&schema), wanted);
        assert_eq!((wanted[1].space(10_000), wanted[2].space(10_000)), (8_192 * 35 * 4, 10_000 * 4 * 4));
    }
}
