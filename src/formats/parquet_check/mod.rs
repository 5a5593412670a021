//! Checks of Parquet files that others wrote, before the Parquet library decodes them.
//!
//! The library trusts a file: it recurses as deep as the schema is nested, copies the path of each column, decompresses
//! whatever a page holds (gzip, Brotli and LZ4 give more than the page claims), expands a batch of a fixed number of rows,
//! however large a row is, believes numbers of rows, and skips as many elements of an unknown list as that claims to
//! have. So a file of a few hundred bytes can end the process, or keep it busy for ever. The checks read the bytes
//! themselves and limit what comes out of them.

use std::ops::Range;

use parquet::arrow::parquet_to_arrow_schema;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};

use self::chunk::{MAX_WINDOW_BYTES, chunk_place};
use self::levels::WINDOW_ROWS;
use crate::arrow_metadata::check_arrow_schema;
use crate::expansion_limits::{ExpansionLimits, overlap};
use pairloom_base::error::{Error, Result};
use pairloom_storage::pread::PreadFile;
use pairloom_storage::shard::catch_panic;

pub use arrow_columns::{ArrowColumn, arrow_columns, exceeds_nanoseconds};
pub use chunk::{ChunkSizes, check_chunk};
pub use footer::check_footer;

mod thrift;
mod footer;
mod page_header;
mod levels;
mod text_sizes;
mod chunk;
mod arrow_columns;
// Tests of other modules use it too.
#[doc(hidden)]
pub mod forged;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod missing_lists_tests;

/// Largest size of the space for missing lists of fixed size.
const MAX_SPACE_BYTES: u64 = 1 << 30;

/// Checks a whole file before a query reads it, and returns its metadata. Calls `check` before each page; its error ends
/// the reading.
///
/// Cost: reads the headers of all pages; decompresses those of gzip and Brotli, and those of lists and texts.
///
/// # Errors
/// The file is damaged, or made to fill the memory or to take for ever. Or an error of `check`.
pub fn check_file(file: &PreadFile, check: &dyn Fn() -> Result<()>) -> Result<ParquetMetaData> {
    check_footer(file)?;
    let metadata = catch_panic(|| ParquetMetaDataReader::new().parse_and_finish(file))??;
    check_places(file, &metadata)?;
    let about = metadata.file_metadata();
    check_arrow_schema(about)?;
    let schema = catch_panic(|| parquet_to_arrow_schema(about.schema_descr(), about.key_value_metadata()))??;
    let arrow_columns = arrow_columns(&schema);
    let mut expansion = ExpansionLimits::of_file(file.size());
    for group in metadata.row_groups() {
        if group.columns().is_empty() && group.num_rows() != 0 {
            return Err(
                Error::data("it has rows without columns").hint("the file is damaged: copy it or create it again")
            );
        }
        let (mut batch, mut space) = (0u64, 0u64);
        for (leaf, column) in group.columns().iter().enumerate() {
            let arrow_column = arrow_columns.get(leaf).copied().unwrap_or_default();
            let sizes = check_chunk(file, column, group.num_rows(), arrow_column, check)?;
            let name = column.column_path().string();
            batch = batch.saturating_add(sizes.largest_batch);
            let (of, got) = if sizes.largest_batch > MAX_WINDOW_BYTES {
                (format!("`{name}`"), sizes.largest_batch)
            } else {
                ("all columns".to_owned(), batch)
            };
            if got > MAX_WINDOW_BYTES {
                let rows = u64::try_from(group.num_rows()).unwrap_or(0).min(WINDOW_ROWS);
                let message = format!("{rows} rows of {of} come to {got} bytes, wanted at most {MAX_WINDOW_BYTES}");
                let fitting = u128::from(rows) * u128::from(MAX_WINDOW_BYTES) / u128::from(got);
                let hint = format!("write the file with row groups of fewer than {} rows", fitting.max(1) + 1);
                return Err(Error::data(message).hint(hint));
            }
            space = space.saturating_add(arrow_column.space(sizes.missing));
            if space > MAX_SPACE_BYTES {
                let message =
                    format!("missing lists up to `{name}` take {space} bytes, wanted at most {MAX_SPACE_BYTES}");
                return Err(Error::data(message).hint("the file is made to fill the memory"));
            }
            expansion.add_bytes(sizes.claimed)?;
        }
        expansion.add_rows(u64::try_from(group.num_rows()).unwrap_or(u64::MAX))?;
    }
    Ok(metadata)
}

/// Checks that no two column chunks share bytes.
///
/// # Errors
/// Two do.
pub fn check_places(file: &PreadFile, metadata: &ParquetMetaData) -> Result<()> {
    let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    let mut places: Vec<Range<u64>> = columns.filter_map(|column| chunk_place(file, column)).collect();
    if overlap(&mut places) {
        return Err(Error::data("two of its columns are in the same place")
            .hint("the file is damaged or made to take for ever"));
    }
    Ok(())
}
