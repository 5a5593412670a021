//! Distances for methods that are defined on them, from similarities.

use super::method::Correction;
use crate::identity::Fields;

/// How a similarity becomes a distance d.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distance {
    /// Cosines: d² = 2 − 2·s, the squared Euclidean distance of unit vectors. Rounding may leave s above 1; d is 0 there.
    Cosine,
    /// Order similarities, which are at most 0: d = −s.
    Order,
}

/// The smallest distance that is divided by: copies of each other are at no distance at all.
pub const SMALLEST: f64 = 1e-12;

impl Distance {
    /// d².
    #[must_use]
    pub fn squared(self, score: f64) -> f64 {
        match self {
            Self::Cosine => (2.0 - 2.0 * score).max(0.0),
            Self::Order => score.min(0.0).powi(2),
        }
    }

    /// What stands for a distance where the mean of several is asked for: d² of cosines, d of order similarities, so that
    /// the mean of distances is the distance of the mean score.
    #[must_use]
    pub fn linear(self, score: f64) -> f64 {
        match self {
            Self::Cosine => (2.0 - 2.0 * score).max(0.0),
            Self::Order => (-score).max(0.0),
        }
    }
}

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
    /// - `items`: w of every item
    /// - `queries`: w of every query; empty for 1
    #[expect(clippy::cast_possible_truncation, reason = "the rounded numbers are for scores in f32")]
    pub(super) fn new(distance: Distance, measured: Measured, items: Vec<f64>, queries: Vec<f64>) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_scores_are_never_negative() {
        // Unit vectors at 60°: the third side of an equilateral triangle.
        assert_eq!((Distance::Cosine.squared(0.5), Distance::Cosine.linear(0.5)), (1.0, 1.0));
        assert_eq!(
            (Distance::Cosine.squared(-1.0), Distance::Order.squared(-3.0), Distance::Order.linear(-3.0)),
            (4.0, 9.0, 3.0)
        );
        // Rounding leaves nobody nearer than copies.
        assert_eq!((Distance::Cosine.squared(1.0 + 1e-7), Distance::Cosine.linear(1.0 + 1e-7)), (0.0, 0.0));
        assert_eq!((Distance::Order.squared(1e-7), Distance::Order.linear(1e-7)), (0.0, 0.0));
    }
}
