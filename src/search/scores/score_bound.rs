//! Bounds of scores.

/// Bounds of the scores of one row with all columns, or of one column with all rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreBound {
    /// Largest absolute difference of an approximate score and the exact one.
    pub error: f64,
    /// Largest absolute value of an exact score.
    pub largest: f64,
}
