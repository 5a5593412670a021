//! Parallel maps of a stage.

use std::ops::Range;

use arrow::array::RecordBatch;

use super::Warning;
use crate::error::Result;

/// Units that a map goes over.
#[derive(Debug, Clone, Copy)]
pub enum Over<'i> {
    /// The rows of this table input.
    Rows(&'i str),
    /// The numbers from 0 up to this one, for rows that follow from what the stage holds in memory.
    Numbers(usize),
}

/// Consecutive units of a map.
#[derive(Debug, Clone)]
pub struct Block {
    /// Their numbers, counted from the first row of the input or from 0.
    pub range: Range<usize>,
    /// The rows of the input; none in a map over numbers.
    pub rows: RecordBatch,
}

/// Result of a map for one block.
#[derive(Debug)]
pub struct Mapped {
    /// Rows of the output, in order. May be fewer than the units of the block.
    pub batch: RecordBatch,
    /// Warnings about these rows.
    pub warnings: Vec<Warning>,
}

/// A function from a block to rows of an output, called from several threads.
pub type MapFn<'f> = dyn Fn(&Block) -> Result<Mapped> + Sync + 'f;
