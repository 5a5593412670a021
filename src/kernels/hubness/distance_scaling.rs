//! Correction that divides distances by a weight of the query and a weight of the item.

use super::distance::Distance;
use super::method::Correction;
use crate::identity::IdentityWriter;

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
