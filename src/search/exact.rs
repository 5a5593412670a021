//! Scores that settle what is in doubt.

use super::scoring::{Scoring, Side};
use super::vectors::Vectors;

/// Exact scores of pairs, less what is taken off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exact<'s> {
    pub rows: &'s Vectors<'s>,
    pub columns: &'s Vectors<'s>,
    pub scoring: Scoring,
}

impl Exact<'_> {
    pub fn vectors(&self, side: Side) -> &Vectors<'_> {
        match side {
            Side::Rows => self.rows,
            Side::Columns => self.columns,
        }
    }

    /// The scores of query `query` of `side` with `items`, to `scores`.
    pub fn scores(&self, side: Side, query: usize, items: impl Iterator<Item = usize>, scores: &mut Vec<f32>) {
        let others = self.vectors(side.other());
        let items: Vec<&[f32]> = items.map(|item| others.row(item)).collect();
        scores.clear();
        self.scoring.exact(side, self.vectors(side).row(query), &items, scores);
    }
}

/// What a query ranks an item by. Not −0, so that numbers that are equal have equal bits.
pub(super) fn ranked_by(score: f32, minus: &[f64], item: usize) -> f64 {
    f64::from(score) - minus.get(item).copied().unwrap_or(0.0) + 0.0
}
