//! NICDM: the non-iterative contextual dissimilarity measure.
//!
//! Jégou, Harzallah, Schmid, "A contextual dissimilarity measure for accurate and efficient image search", CVPR 2007;
//! against hubs: Schnitzer, Flexer, Schedl, Widmer, "Local and Global Scaling Reduce Hubs in Space", JMLR 13, 2012.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distance::{Distance, DistanceForm, DistanceScaling, MIN_DISTANCE};
use super::method::{
    Correction, DenseScores, ParameterProblems, RequiredStatistics, ScoreStatistics, Statistic, StatisticalMethod,
    check_count,
};

/// Distances divided by the mean distance of neighbours (Jégou et al., 2007): `d'(q, i) = d / √(μ(q)·μ(i))`. μ is the
/// mean distance to the `k` nearest neighbours: of the query to items, and of the item to the queries of the bank or of
/// the test.
///
/// d is the squared distance for cosines, −s for order similarities, and 1 − s for stored scores, which must not be above 1.
/// The ranking is by `−d / √μ(i)`: one weight for each item, not a score minus a shift. μ is at least 1e-12.
///
/// # Cost
/// One pass over the scores for the largest of every item, then one product for each score.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Nicdm {
    /// Number of neighbours.
    pub k: usize,
    /// True to learn from the queries of the bank, false to learn from the test queries.
    pub query_bank: bool,
}

impl Default for Nicdm {
    fn default() -> Self {
        Self { k: 10, query_bank: false }
    }
}

impl StatisticalMethod for Nicdm {
    fn is_inductive(&self) -> bool {
        self.query_bank
    }

    fn problems(&self) -> ParameterProblems {
        check_count("k", self.k).into_iter().collect()
    }

    fn required_statistics(&self) -> RequiredStatistics {
        let mean = vec![Statistic::MeanOfLargest { k: self.k }];
        RequiredStatistics {
            item_statistics: mean.clone(),
            query_statistics: mean,
            needs_distances: true,
            ..RequiredStatistics::default()
        }
    }

    fn correction(&self, statistics: &ScoreStatistics) -> Box<dyn Correction> {
        let roots = statistics.map_first(|mean| statistics.distance.affine(mean).max(MIN_DISTANCE).sqrt());
        Box::new(DistanceScaling::new(statistics.distance, DistanceForm::Affine, roots))
    }

    /// `−d'`.
    #[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
    fn definition(&self, scores: &DenseScores, others: &DenseScores, distance: Distance) -> DenseScores {
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            let mut distances: Vec<f64> = values.map(|score| distance.affine(score)).collect();
            distances.sort_by(f64::total_cmp);
            distances.truncate(self.k);
            (distances.iter().sum::<f64>() / distances.len() as f64).max(MIN_DISTANCE)
        };
        DenseScores::from_fn(scores.queries, scores.items, |query, item| {
            let product = mean(&mut scores.row(query)) * mean(&mut others.column(item));
            -(distance.affine(scores.at(query, item)) / product.sqrt())
        })
    }
}
