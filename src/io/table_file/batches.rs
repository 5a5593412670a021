//! Size limits of the batches that are read from a table file.

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use az::SaturatingAs;

use crate::error::{Error, Result};
use crate::io::parquet::BATCH_ROWS;

/// Maximum length of a vector: many times the widest joint embedding space that we know of.
pub const MAX_WIDTH: usize = 1 << 16;
/// Maximum number of values in a batch of several rows: 16 MiB of f32.
const BATCH_VALUES: usize = 4 << 20;

/// Iterator over the rows of a table, in order, in batches of bounded size.
pub(super) type BatchIterator<'f> = Box<dyn Iterator<Item = Result<RecordBatch>> + 'f>;

/// Function that is called before each page or record batch; its error ends the reading.
pub(super) type Check<'f> = Box<dyn Fn() -> Result<()> + 'f>;

/// Number of rows in a batch if a row has `values` values.
pub(super) fn rows_per_batch(values: usize) -> usize {
    (BATCH_VALUES / values.max(1)).clamp(1, BATCH_ROWS)
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
