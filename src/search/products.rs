//! Scores that something else than the tiles of a search computes: a GPU.

use std::fmt::Debug;
use std::ops::Range;

use crate::error::Result;
use crate::kernels::product::COLUMNS;

/// Computes the scores of the rows of a search with its columns, in f32.
///
/// Each is a sum of one f32 product an entry (of squares, for order similarity), in any order, fused or not; numbers below
/// 2⁻¹²⁶ may count as 0. Nothing is multiplied in fewer bits, such as TF32. So much the bound of a search takes for granted
/// ([`Extent::elsewhere`](crate::kernels::product::Extent::elsewhere)), and no more: equal vectors may get scores that differ
/// by rounding.
pub trait Products: Debug + Send + Sync {
    /// The scores of `rows`; called from all threads of a search.
    ///
    /// # Shapes
    /// `scores`: the panels of [`COLUMNS`] columns one after the other, and of each all of `rows` one after the other. What is
    /// written beyond the last column means nothing.
    ///
    /// # Errors
    /// Whatever keeps it from computing them; the search ends with that error.
    fn scores(&self, rows: Range<usize>, scores: &mut [[f32; COLUMNS]]) -> Result<()>;
}
