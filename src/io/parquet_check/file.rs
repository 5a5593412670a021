//! Check of a whole Parquet file before a query reads it.

use std::ops::Range;

use arrow::datatypes::{DataType, Schema};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};

use super::chunk::{ChunkSizes, MAX_WINDOW_BYTES, check_chunk, chunk_place};
use super::footer::check_footer;
use super::levels::WINDOW_ROWS;
use crate::error::{Error, Result};
use crate::io::pread::PreadFile;
use crate::io::shard::catch_panic;

/// Most bytes that all pages may claim without compression, and how many times the size of the file.
const MAX_CLAIMED_BYTES: u64 = 16 << 30;
const MAX_CLAIMED_TIMES: u64 = 1_000;
/// Largest size of the space for missing lists of fixed size.
const MAX_SPACE_BYTES: u64 = 1 << 30;
/// Size of a number at most.
const NUMBER_BYTES: u64 = 8;

/// Checks a whole file before a query reads it. Calls `check` before each page; its error ends the reading.
///
/// Cost: reads the headers of all pages; decompresses those of gzip and Brotli, and those of lists and texts.
///
/// # Errors
/// The file is damaged, or made to fill the memory or to take for ever. Or an error of `check`.
pub fn check_file(file: &PreadFile, check: &dyn Fn() -> Result<()>) -> Result<()> {
    check_footer(file)?;
    let metadata = catch_panic(|| ParquetMetaDataReader::new().parse_and_finish(file))??;
    check_places(file, &metadata)?;
    let about = metadata.file_metadata();
    let schema = catch_panic(|| parquet_to_arrow_schema(about.schema_descr(), about.key_value_metadata()))??;
    let lists = lists_of_columns(&schema);
    let most = MAX_CLAIMED_BYTES.max(file.size().saturating_mul(MAX_CLAIMED_TIMES));
    let mut claimed = 0u64;
    for group in metadata.row_groups() {
        if group.columns().is_empty() && group.num_rows() != 0 {
            return Err(
                Error::data("it has rows without columns").hint("the file is damaged: copy it or create it again")
            );
        }
        let mut batch = 0u64;
        for (leaf, column) in group.columns().iter().enumerate() {
            let is_text = lists.get(leaf).is_some_and(|lists| lists.of_texts);
            let sizes = check_chunk(file, column, group.num_rows(), is_text, check)?;
            let name = column.column_path().string();
            if sizes.largest_batch > MAX_WINDOW_BYTES {
                let got = sizes.largest_batch;
                let message =
                    format!("{WINDOW_ROWS} rows of `{name}` come to {got} bytes, wanted at most {MAX_WINDOW_BYTES}");
                return Err(Error::data(message));
            }
            batch = batch.saturating_add(sizes.largest_batch);
            if batch > MAX_WINDOW_BYTES {
                let message = format!(
                    "{WINDOW_ROWS} rows of all columns come to {batch} bytes, wanted at most {MAX_WINDOW_BYTES}"
                );
                return Err(Error::data(message));
            }
            let space = lists.get(leaf).map_or(0, |lists| lists.space(&sizes));
            if space > MAX_SPACE_BYTES {
                let message = format!("missing lists of `{name}` take {space} bytes, wanted at most {MAX_SPACE_BYTES}");
                return Err(Error::data(message).hint("the file is made to fill the memory"));
            }
            claimed = claimed.saturating_add(sizes.claimed);
            if claimed > most {
                let message = format!("its pages come to more than {most} bytes without compression");
                return Err(Error::data(message).hint("the file is made to take for ever"));
            }
        }
    }
    Ok(())
}

/// Checks that no two column chunks share bytes, so that the size of a file limits what is in it.
fn check_places(file: &PreadFile, metadata: &ParquetMetaData) -> Result<()> {
    let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    let mut places: Vec<Range<u64>> = columns.filter_map(|column| chunk_place(file, column)).collect();
    places.sort_unstable_by_key(|place| (place.start, place.end));
    if places.windows(2).any(|pair| pair[1].start < pair[0].end) {
        return Err(Error::data("two of its columns are in the same place")
            .hint("the file is damaged or made to take for ever"));
    }
    Ok(())
}

/// Lists of fixed size around the values of a column. Space for all its values is reserved where such a list is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct FixedLists {
    /// Product of their lengths; 0 without such a list.
    length: u64,
    /// True if they are in lists of other lengths, so that a row may have many of them.
    are_in_lists: bool,
    /// True if the values are texts.
    of_texts: bool,
}

impl FixedLists {
    /// Bytes of the space for what is missing in a batch.
    fn space(self, sizes: &ChunkSizes) -> u64 {
        let missing = if self.are_in_lists { sizes.missing } else { sizes.missing.min(WINDOW_ROWS) };
        missing.saturating_mul(self.length).saturating_mul(NUMBER_BYTES)
    }
}

/// Lists of fixed size of each column, in the order of the columns of the file.
fn lists_of_columns(schema: &Schema) -> Vec<FixedLists> {
    let mut found = Vec::new();
    for field in schema.fields() {
        add_lists(field.data_type(), FixedLists::default(), &mut found);
    }
    found
}

fn add_lists(kind: &DataType, around: FixedLists, found: &mut Vec<FixedLists>) {
    match kind {
        DataType::FixedSizeList(field, length) => {
            let length = u64::try_from(*length).unwrap_or(0).saturating_mul(around.length.max(1));
            add_lists(field.data_type(), FixedLists { length, ..around }, found);
        }
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::Map(field, _) => add_lists(field.data_type(), FixedLists { are_in_lists: true, ..around }, found),
        DataType::Struct(fields) => fields.iter().for_each(|field| add_lists(field.data_type(), around, found)),
        kind => found.push(FixedLists { of_texts: is_text(kind), ..around }),
    }
}

/// True for texts, and for dictionaries of them.
pub fn is_text(kind: &DataType) -> bool {
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
    fn lists_of_fixed_size_are_found_for_each_column() {
        let field = |kind| Arc::new(Field::new("x", kind, true));
        let fixed = |kind, length| DataType::FixedSizeList(field(kind), length);
        let list = |kind| DataType::List(field(kind));
        let pair = DataType::Struct(Fields::from(vec![field(DataType::Utf8), field(fixed(DataType::Float32, 3))]));
        let schema = Schema::new(vec![
            field(DataType::Int64),
            field(fixed(fixed(DataType::Float32, 5), 7)),
            field(list(fixed(DataType::Float32, 4))),
            field(fixed(pair, 2)),
        ]);
        let wanted = [(0, false, false), (35, false, false), (4, true, false), (2, false, true), (6, false, false)];
        let wanted = wanted.map(|(length, are_in_lists, of_texts)| FixedLists { length, are_in_lists, of_texts });
        assert_eq!(lists_of_columns(&schema), wanted);
        let sizes = ChunkSizes { missing: 10_000, ..ChunkSizes::default() };
        assert_eq!((wanted[1].space(&sizes), wanted[2].space(&sizes)), (8_192 * 35 * 8, 10_000 * 4 * 8));
    }
}
