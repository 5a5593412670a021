//! Shift correction: subtracts one number of each item from all its scores.

use super::method::Correction;
use crate::identity::IdentityWriter;

/// Shift correction: `s − h(item) − g(query)`.
///
/// `g` shifts all scores of a query, so it does not change the query's ranking; it makes scores of different queries
/// comparable.
#[derive(Debug, Clone, PartialEq)]
pub struct ShiftCorrection {
    items: Vec<f64>,
    rounded: Vec<f32>,
    queries: Vec<f64>,
}

impl ShiftCorrection {
    /// Correction with these shifts.
    ///
    /// # Shapes
    /// - `items`: h of every item; empty if all are 0
    /// - `queries`: g of every query; empty if all are 0
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the rounded shifts are for scores in f32")]
    pub fn new(items: Vec<f64>, queries: Vec<f64>) -> Self {
        let rounded = items.iter().map(|&h| h as f32).collect();
        Self { items, rounded, queries }
    }

    /// Shift h of every item; empty if all are 0.
    #[must_use]
    pub fn item_shifts(&self) -> &[f64] {
        &self.items
    }

    /// Shift g of every query; empty if all are 0.
    #[must_use]
    pub fn query_shifts(&self) -> &[f64] {
        &self.queries
    }
}

impl Correction for ShiftCorrection {
    fn corrected_score(&self, _: usize, item: usize, score: f32) -> f64 {
        f64::from(score) - self.items.get(item).copied().unwrap_or(0.0)
    }

    fn comparable_score(&self, query: usize, item: usize, score: f32) -> f64 {
        self.corrected_score(query, item, score) - self.queries.get(query).copied().unwrap_or(0.0)
    }

    fn correct_row(&self, _: usize, scores: &mut [f32]) {
        for (score, h) in scores.iter_mut().zip(&self.rounded) {
            *score -= h;
        }
    }

    fn row_shifts(&self, _: usize) -> Option<&[f64]> {
        Some(&self.items)
    }

    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        fields.write_text("shift");
        fields.write_f64s(&self.items);
        fields.write_f64s(&self.queries);
    }
}
