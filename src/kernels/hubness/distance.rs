//! Distances computed from similarities, for methods that are defined on distances, and the correction that divides them
//! by a weight of the query and a weight of the item.

use super::method::Correction;
use crate::identity::IdentityWriter;

/// Conversion of a similarity s into a distance d.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distance {
    /// Cosines: d² = 2 − 2·s, the squared Euclidean distance of unit vectors. If rounding makes s larger than 1, d is
    /// 0.
    Cosine,
    /// Order similarities, which are at most 0: d = −s.
    Order,
    /// Scores of at most 1 that no vectors define, such as those of cross attention: d = 1 − s.
    OneMinusScore,
}

/// Lower bound of distances that are divided by: the distance of duplicates is 0.
pub const MIN_DISTANCE: f64 = 1e-12;

impl Distance {
    /// d².
    #[must_use]
    pub fn squared(self, score: f64) -> f64 {
        match self {
            Self::Cosine => (2.0 - 2.0 * score).max(0.0),
            Self::Order => score.min(0.0).powi(2),
            Self::OneMinusScore => (1.0 - score).max(0.0).powi(2),
        }
    }

    /// Distance that is an affine function of the score: d² of cosines, d of other scores. So the mean of distances is the
    /// distance of the mean score.
    #[must_use]
    pub fn affine(self, score: f64) -> f64 {
        match self {
            Self::Cosine => (2.0 - 2.0 * score).max(0.0),
            Self::Order => (-score).max(0.0),
            Self::OneMinusScore => (1.0 - score).max(0.0),
        }
    }
}

/// Distance that is scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DistanceForm {
    /// [`Distance::squared`].
    Squared,
    /// [`Distance::affine`].
    Affine,
}

/// Distance scaling: `−D(s) / (w(q)·w(i))`, where D is one of the distances of a score and w are weights.
#[derive(Debug)]
pub(super) struct DistanceScaling {
    distance: Distance,
    measured: DistanceForm,
    items: Vec<f64>,
    rounded: Vec<f32>,
    queries: Vec<f64>,
}

impl DistanceScaling {
    /// Correction with the weights w of every item and of every query; those of the queries are empty if all are 1.
    #[expect(clippy::cast_possible_truncation, reason = "the rounded weights are for scores in f32")]
    pub(super) fn new(distance: Distance, measured: DistanceForm, [items, queries]: [Vec<f64>; 2]) -> Self {
        let rounded = items.iter().map(|w| (1.0 / w) as f32).collect();
        Self { distance, measured, items, rounded, queries }
    }
}

impl Correction for DistanceScaling {
    fn corrected_score(&self, _: usize, item: usize, score: f32) -> f64 {
        let distance = match self.measured {
            DistanceForm::Squared => self.distance.squared(f64::from(score)),
            DistanceForm::Affine => self.distance.affine(f64::from(score)),
        };
        -distance / self.items[item]
    }

    fn comparable_score(&self, query: usize, item: usize, score: f32) -> f64 {
        self.corrected_score(query, item, score) / self.queries.get(query).copied().unwrap_or(1.0)
    }

    fn correct_row(&self, _: usize, scores: &mut [f32]) {
        let pairs = scores.iter_mut().zip(&self.rounded);
        // One loop for each case, without branches in it.
        match (self.distance, self.measured) {
            (Distance::Cosine, _) => pairs.for_each(|(score, w)| *score = -((2.0 - 2.0 * *score).max(0.0) * w)),
            (Distance::Order, DistanceForm::Affine) => pairs.for_each(|(score, w)| *score = score.min(0.0) * w),
            (Distance::Order, DistanceForm::Squared) => pairs.for_each(|(score, w)| {
                let violation = score.min(0.0);
                *score = -(violation * violation * w);
            }),
            (Distance::OneMinusScore, DistanceForm::Affine) => {
                pairs.for_each(|(score, w)| *score = -((1.0 - *score).max(0.0) * w));
            }
            (Distance::OneMinusScore, DistanceForm::Squared) => pairs.for_each(|(score, w)| {
                let distance = (1.0 - *score).max(0.0);
                *score = -(distance * distance * w);
            }),
        }
    }

    fn row_shifts(&self, _: usize) -> Option<&[f64]> {
        None
    }

    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        let Self { distance, measured, items, rounded: _, queries } = self;
        fields.write_text("scaled");
        fields.write_text(match distance {
            Distance::Cosine => "cosine",
            Distance::Order => "order",
            Distance::OneMinusScore => "one minus score",
        });
        fields.write_text(match measured {
            DistanceForm::Squared => "squared",
            DistanceForm::Affine => "linear",
        });
        fields.write_f64s(items);
        fields.write_f64s(queries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_scores_are_never_negative() {
        // Unit vectors at 60°: the third side of an equilateral triangle.
        assert_eq!((Distance::Cosine.squared(0.5), Distance::Cosine.affine(0.5)), (1.0, 1.0));
        assert_eq!(
            (Distance::Cosine.squared(-1.0), Distance::Order.squared(-3.0), Distance::Order.affine(-3.0)),
            (4.0, 9.0, 3.0)
        );
        assert_eq!((Distance::OneMinusScore.squared(-1.0), Distance::OneMinusScore.affine(0.25)), (4.0, 0.75));
        assert_eq!((Distance::OneMinusScore.squared(1.5), Distance::OneMinusScore.affine(1.5)), (0.0, 0.0));
        // No distance is below 0, whatever rounding does to scores.
        assert_eq!((Distance::Cosine.squared(1.0 + 1e-7), Distance::Cosine.affine(1.0 + 1e-7)), (0.0, 0.0));
        assert_eq!((Distance::Order.squared(1e-7), Distance::Order.affine(1e-7)), (0.0, 0.0));
    }
}
