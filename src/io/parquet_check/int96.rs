//! Moments of the old type `INT96`: a day and the nanoseconds of the day.

use parquet::basic::Type;
use parquet::column::reader::ColumnReader;
use parquet::data_type::Int96;
use parquet::file::reader::{FileReader as _, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;

use crate::error::Result;
use crate::io::pread::PreadFile;
use crate::io::shard::catch_panic;

/// Number of 1970-01-01 in days since the first of January 4713 BC, as the type counts.
const EPOCH_DAY: i64 = 2_440_588;
/// Days before and after it whose moments fit into a number of nanoseconds of 64 bits: to 1677 and to 2262.
const NANOSECOND_DAYS: i64 = i64::MAX / 86_400_000_000_000 - 1;
/// Number of values that are read at a time.
const VALUES: usize = 8192;

/// True if a column of this type has a moment that nanoseconds of 64 bits do not have. Reads these columns, of a file that
/// is checked.
///
/// # Errors
/// A column cannot be read.
pub fn has_far_moments(file: &PreadFile) -> Result<bool> {
    let reader = catch_panic(|| SerializedFileReader::new(file.clone()))??;
    let columns = reader.metadata().file_metadata().schema_descr().columns();
    let places: Vec<usize> =
        (0..columns.len()).filter(|&place| columns[place].physical_type() == Type::INT96).collect();
    for group in 0..reader.num_row_groups() {
        if places.is_empty() {
            break;
        }
        let group = catch_panic(|| reader.get_row_group(group))??;
        for &place in &places {
            if column_has_far_moments(&*group, place)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn column_has_far_moments(group: &dyn RowGroupReader, place: usize) -> Result<bool> {
    let column = catch_panic(|| group.get_column_reader(place))??;
    let ColumnReader::Int96ColumnReader(mut column) = column else { return Ok(false) };
    let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        values.clear();
        definition.clear();
        repetition.clear();
        let mut read = || column.read_records(VALUES, Some(&mut definition), Some(&mut repetition), &mut values);
        let (records, ..) = catch_panic(&mut read)??;
        if values.iter().any(is_far) {
            return Ok(true);
        }
        if records == 0 {
            return Ok(false);
        }
    }
}

fn is_far(moment: &Int96) -> bool {
    let day = i64::from(moment.data()[2]) - EPOCH_DAY;
    !(-NANOSECOND_DAYS..=NANOSECOND_DAYS).contains(&day)
}
