//! Size limits of the batches that are read from a table file.

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use az::SaturatingAs;

use crate::line_reader::MAX_LINE_BYTES;
use pairloom_base::error::{Error, Result, escape_line};
use pairloom_storage::parquet::BATCH_ROWS;

/// Maximum length of a vector: many times the widest joint embedding space that we know of.
pub const MAX_WIDTH: usize = 1 << 16;
/// Maximum number of values of a column in a batch of several rows: 16 MiB of f32.
pub(super) const BATCH_VALUES: usize = 4 << 20;
/// Maximum size in bytes of the texts of a column in a batch of several rows.
pub(super) const BATCH_TEXT_BYTES: usize = 256 << 20;
/// Maximum size in bytes of the texts of a row.
const MAX_ROW_BYTES: usize = 512 << 20;

/// Iterator over the rows of a table, in order, in batches of bounded size.
pub(super) type BatchIterator<'f> = Box<dyn Iterator<Item = Result<RecordBatch>> + 'f>;

/// Function that is called before each page and record batch, and for each batch; its error ends the reading.
pub(super) type Check<'f> = Box<dyn Fn() -> Result<()> + 'f>;

/// Number of rows in a batch if a row has `values` values.
pub(super) fn rows_per_batch(values: usize) -> usize {
    (BATCH_VALUES / values.max(1)).clamp(1, BATCH_ROWS)
}

/// Checks the size of a row of the column `name`: the number of its values, and the bytes of its longest text and of all
/// of its texts.
pub(super) fn check_row(name: &str, values: usize, longest_text: usize, bytes: usize) -> Result<()> {
    let refused = |what: &str, got: usize, most: usize, unit: &str| {
        Err(Error::data(format!("{what} of `{}` has {got} {unit}, wanted at most {most}", escape_line(name))))
    };
    if values > MAX_WIDTH {
        refused("a row", values, MAX_WIDTH, "values")
    } else if longest_text > MAX_LINE_BYTES {
        refused("a text", longest_text, MAX_LINE_BYTES, "bytes")
    } else if bytes > MAX_ROW_BYTES {
        refused("a row", bytes, MAX_ROW_BYTES, "bytes")
    } else {
        Ok(())
    }
}

/// Error for a truncated file.
pub(super) fn truncated_error() -> Error {
    Error::data("the file is cut short or damaged").hint("copy it or create it again")
}

/// Number of values per row of a column type, if the type determines it, otherwise 1.
pub(super) fn values_per_row(kind: &DataType) -> usize {
    match kind {
        DataType::FixedSizeList(_, width) => (*width).saturating_as::<usize>(),
        _ => 1,
    }
}
