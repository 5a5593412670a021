//! Timestamps of the old type `INT96` of Parquet: a day and the nanoseconds of the day.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::Type;
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::data_type::Int96;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use pairloom_base::error::Result;
use pairloom_storage::pread::PreadFile;
use pairloom_storage::shard::catch_panic;

/// Number of 1970-01-01 in days since the first of January 4713 BC, as the type counts.
const EPOCH_DAY: i64 = 2_440_588;
/// Days before and after it that 64 bits of nanoseconds can count: to 1677 and to 2262.
const NANOSECOND_DAYS: i64 = i64::MAX / 86_400_000_000_000 - 1;
/// Number of values that are read at a time.
const VALUES: usize = 8192;

/// True if a Parquet file has a timestamp that 64 bits of nanoseconds cannot hold. Reads its columns of this type.
///
/// # Errors
/// A column cannot be read.
pub fn exceeds_nanoseconds(path: &Path) -> Result<bool> {
    let file = PreadFile::open(path)?;
    let metadata = catch_panic(|| ParquetMetaDataReader::new().parse_and_finish(&file))??;
    let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    for column in columns.filter(|column| column.column_type() == Type::INT96) {
        if column_exceeds(&file, column)? {
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
