//! Types of the parallel map of a stage.

use std::ops::Range;

use arrow::array::RecordBatch;

use super::{EarlierPart, PartKey, RowKey, RowKeys, SharedEarlierRows, Warning};
use pairloom_base::error::Result;

/// Input of a parallel map.
#[derive(Debug, Clone, Copy)]
pub enum MapInput<'i> {
    /// Rows of this table input.
    Table(&'i str),
    /// Indices `0..n`, for output rows that the stage computes from data in memory.
    Range(usize),
}

/// Block of consecutive rows or indices, which becomes one part of the output.
#[derive(Debug, Clone)]
pub struct MapBlock {
    /// Row numbers in the input, or indices.
    pub range: Range<usize>,
    /// Rows of the input; an empty batch in a map over indices.
    pub rows: RecordBatch,
}

/// Rows of the output for one block.
#[derive(Debug)]
pub enum MappedRows {
    /// Rows in order; may be fewer than the rows of the block.
    New(RecordBatch),
    /// Rows of a part of an earlier result, which has exactly these.
    Earlier(EarlierPart),
}

/// Result of a map for one block.
#[derive(Debug)]
pub struct MapOutput {
    /// Rows of the output.
    pub rows: MappedRows,
    /// Warnings about these rows.
    pub warnings: Vec<Warning>,
    /// Key of each row, by which later results copy it; empty if they compute it again.
    pub row_keys: RowKeys,
    /// Key of the part that the rows become, by which a later result takes it as a whole; `None` if it does not.
    pub part_key: Option<PartKey>,
    /// Number of rows that were copied from earlier results.
    pub copied: u64,
}

impl MapOutput {
    /// Rows without warnings and keys.
    #[must_use]
    pub fn new(batch: RecordBatch) -> Self {
        let rows = MappedRows::New(batch);
        Self { rows, warnings: Vec::new(), row_keys: RowKeys::default(), part_key: None, copied: 0 }
    }

    /// The part of an earlier result with the key `part_key`, whose rows have the keys `row_keys`; `None` if there is none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn find_earlier(
        earlier: &SharedEarlierRows,
        part_key: Option<&PartKey>,
        row_keys: impl FnOnce() -> Vec<RowKey>,
    ) -> Result<Option<Self>> {
        let (Some(earlier), Some(part_key)) = (earlier, part_key) else { return Ok(None) };
        Ok(earlier.find_part(part_key)?.map(|part| Self {
            copied: part.rows,
            rows: MappedRows::Earlier(part),
            warnings: Vec::new(),
            row_keys: RowKeys(row_keys()),
            part_key: Some(part_key.clone()),
        }))
    }
}

/// Summary of a parallel map, including the blocks that an earlier run mapped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MapSummary {
    /// Number of input rows, or of indices.
    pub inputs: u64,
    /// Number of output rows.
    pub rows: u64,
    /// First warnings about the rows.
    pub warnings: Vec<Warning>,
}

impl MapSummary {
    /// Maximum number of warnings in a summary.
    pub const WARNINGS: usize = 20;
}

/// Function that maps a block to rows of an output; called from several threads.
pub type MapFn<'f> = dyn Fn(&MapBlock) -> Result<MapOutput> + Sync + 'f;
