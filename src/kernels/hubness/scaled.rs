//! Correction of distances: each in units of its query and of its item.

use super::distance::Distance;
use super::method::Correction;
use crate::identity::Fields;

/// Which distance of a score is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measured {
    /// [`Distance::squared`].
    Squared,
    /// [`Distance::linear`].
    Linear,
}

/// `−D(s) / (w(q)·w(i))`, where D is one of the distances of a score.
#[derive(Debug)]
pub(super) struct Scaled {
    distance: Distance,
    measured: Measured,
    items: Vec<f64>,
    rounded: Vec<f32>,
    queries: Vec<f64>,
}

impl Scaled {
    /// # Shapes
    /// - w of every item, and of every query; the latter empty for 1
    #[expect(clippy::cast_possible_truncation, reason = "the rounded numbers are for scores in f32")]
    pub(super) fn new(distance: Distance, measured: Measured, [items, queries]: [Vec<f64>; 2]) -> Self {
        let rounded = items.iter().map(|w| (1.0 / w) as f32).collect();
        Self { distance, measured, items, rounded, queries }
    }
}

impl Correction for Scaled {
    fn pair(&self, _: usize, item: usize, score: f32) -> f64 {
        let distance = match self.measured {
            Measured::Squared => self.distance.squared(f64::from(score)),
            Measured::Linear => self.distance.linear(f64::from(score)),
        };
        -distance / self.items[item]
    }

    fn across(&self, query: usize, item: usize, score: f32) -> f64 {
        self.pair(query, item, score) / self.queries.get(query).copied().unwrap_or(1.0)
    }

    fn row(&self, _: usize, scores: &mut [f32]) {
        let pairs = scores.iter_mut().zip(&self.rounded);
        // One loop for each, without a decision in it.
        match (self.distance, self.measured) {
            (Distance::Cosine, _) => pairs.for_each(|(score, w)| *score = -((2.0 - 2.0 * *score).max(0.0) * w)),
            (Distance::Order, Measured::Linear) => pairs.for_each(|(score, w)| *score = score.min(0.0) * w),
            (Distance::Order, Measured::Squared) => pairs.for_each(|(score, w)| {
                let violation = score.min(0.0);
                *score = -(violation * violation * w);
            }),
        }
    }

    fn shift(&self, _: usize) -> Option<&[f64]> {
        None
    }

    fn identity(&self, fields: &mut Fields<'_>) {
        let Self { distance, measured, items, rounded: _, queries } = self;
        fields.text("scaled");
        fields.text(match distance {
            Distance::Cosine => "cosine",
            Distance::Order => "order",
        });
        fields.text(match measured {
            Measured::Squared => "squared",
            Measured::Linear => "linear",
        });
        fields.floats(items);
        fields.floats(queries);
    }
}
