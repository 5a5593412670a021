//! Batches of rows of a table in a file, and how large they may be.

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use az::SaturatingAs;

use crate::error::{Error, Result};
use crate::io::parquet::BATCH_ROWS;

/// Values of the longest vector that is read: many times the widest joint space that we know of.
pub const MAX_WIDTH: usize = 1 << 16;
/// Values that are read together, where a row has not more by itself: 16 MiB of f32.
const BATCH_VALUES: usize = 4 << 20;

/// Rows of tables, in order, in batches that are small beside any memory.
pub(super) type Batches<'f> = Box<dyn Iterator<Item = Result<RecordBatch>> + 'f>;

/// How many rows are read together where a row has this many values.
pub(super) fn rows_together(values: usize) -> usize {
    (BATCH_VALUES / values.max(1)).clamp(1, BATCH_ROWS)
}

/// The error of a file that ends too early.
pub(super) fn cut() -> Error {
    Error::data("the file is cut short or damaged").hint("copy or make it again")
}

/// Values of a row in columns of this type, as far as the type says.
pub(super) fn width(kind: &DataType) -> usize {
    match kind {
        DataType::FixedSizeList(_, width) => (*width).saturating_as::<usize>(),
        _ => 1,
    }
}
