//! Columns of a Parquet file as the library gives them out: in the types of Arrow, which the file itself may choose. And
//! timestamps of the old type `INT96`: a day and the nanoseconds of the day.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use az::SaturatingAs as _;
use parquet::basic::Type;
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::data_type::Int96;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::levels::WINDOW_ROWS;
use pairloom_base::error::Result;
use pairloom_storage::pread::PreadFile;
use pairloom_storage::shard::catch_panic;

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

/// Number of 1970-01-01 in days since the first of January 4713 BC, as the type counts.
const EPOCH_DAY: i64 = 2_440_588;
/// Days before and after it that 64 bits of nanoseconds can count: to 1677 and to 2262.
const NANOSECOND_DAYS: i64 = i64::MAX / 86_400_000_000_000 - 1;
/// Number of values that are read at a time.
const VALUES: usize = 8192;

/// True if a checked file has a timestamp that 64 bits of nanoseconds cannot hold. Reads its columns of this type.
///
/// # Errors
/// A column cannot be read.
pub fn exceeds_nanoseconds(file: &PreadFile, metadata: &ParquetMetaData) -> Result<bool> {
    let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    for column in columns.filter(|column| column.column_type() == Type::INT96) {
        if column_exceeds(file, column)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn column_exceeds(file: &PreadFile, column: &ColumnChunkMetaData) -> Result<bool> {
    let pages = catch_panic(|| SerializedPageReader::new(Arc::new(file.clone()), column, 0, None))??;
    let reader = get_column_reader(column.column_descr_ptr(), Box::new(pages));
    let ColumnReader::Int96ColumnReader(mut reader) = reader else { return Ok(false) };
    let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        values.clear();
        definition.clear();
        repetition.clear();
        let mut read = || reader.read_records(VALUES, Some(&mut definition), Some(&mut repetition), &mut values);
        let (records, ..) = catch_panic(&mut read)??;
        if values.iter().any(is_beyond) {
            return Ok(true);
        }
        if records == 0 {
            return Ok(false);
        }
    }
}

fn is_beyond(timestamp: &Int96) -> bool {
    let day = i64::from(timestamp.data()[2]) - EPOCH_DAY;
    !(-NANOSECOND_DAYS..=NANOSECOND_DAYS).contains(&day)
}

#[cfg(test)]
mod tests {

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
