//! The simplest correction: an item has one number, which is taken off all its scores.

use super::method::Correction;
use crate::identity::Fields;

/// `s − h(item) − g(query)`.
///
/// `g` moves a whole row and leaves the query's ranking as it is; it makes scores of different queries comparable.
#[derive(Debug, Clone, PartialEq)]
pub struct Shift {
    items: Vec<f64>,
    rounded: Vec<f32>,
    queries: Vec<f64>,
}

impl Shift {
    /// # Shapes
    /// - `items`: h of every item; empty for 0
    /// - `queries`: g of every query; empty for 0
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the rounded numbers are for scores in f32")]
    pub fn new(items: Vec<f64>, queries: Vec<f64>) -> Self {
        let rounded = items.iter().map(|&h| h as f32).collect();
        Self { items, rounded, queries }
    }

    /// h of every item; empty for 0.
    #[must_use]
    pub fn items(&self) -> &[f64] {
        &self.items
    }

    /// g of every query; empty for 0.
    #[must_use]
    pub fn queries(&self) -> &[f64] {
        &self.queries
    }
}

impl Correction for Shift {
    fn pair(&self, _: usize, item: usize, score: f32) -> f64 {
        f64::from(score) - self.items.get(item).copied().unwrap_or(0.0)
    }

    fn across(&self, query: usize, item: usize, score: f32) -> f64 {
        self.pair(query, item, score) - self.queries.get(query).copied().unwrap_or(0.0)
    }

    fn row(&self, _: usize, scores: &mut [f32]) {
        for (score, h) in scores.iter_mut().zip(&self.rounded) {
            *score -= h;
        }
    }

    fn shift(&self, _: usize) -> Option<&[f64]> {
        Some(&self.items)
    }

    fn identity(&self, fields: &mut Fields<'_>) {
        fields.text("shift");
        fields.floats(&self.items);
        fields.floats(&self.queries);
    }
}
