//! Vectors that scores are computed from.

use super::score_function::ScoreFunction;
use super::vector_matrix::VectorMatrix;

/// Vectors of both sides with their score function.
#[derive(Debug, Clone, Copy)]
pub struct ScoredVectors<'s> {
    /// Rows.
    pub rows: &'s VectorMatrix<'s>,
    /// Columns.
    pub columns: &'s VectorMatrix<'s>,
    /// Score function of a row and a column.
    pub score_function: ScoreFunction,
}
