//! Local scaling: distances divided by the neighbour distances of the query and of the item.
//!
//! Zelnik-Manor and Perona, "Self-tuning spectral clustering", NIPS 2004; against hubs: Schnitzer, Flexer, Schedl,
//! Widmer, "Local and Global Scaling Reduce Hubs in Space", JMLR 13, 2012.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distance::{Distance, DistanceForm, DistanceScaling, MIN_DISTANCE};
use super::method::{
    Correction, DenseScores, ParameterProblems, RequiredStatistics, ScoreStatistics, Statistic, StatisticalMethod,
    check_count,
};

/// Distances divided by those to the k-th neighbours (Zelnik-Manor, Perona, 2005): `s'(q, i) = exp(−d² / (σ(q)·σ(i)))`.
/// σ is the distance to the `k`-th neighbour: of the query among the items, and of the item among the queries of the
/// bank or of the test. d is the Euclidean distance of unit vectors, −s for order similarities, and 1 − s for stored scores,
/// which must not be above 1.
///
/// The ranking is by `−d² / σ(i)`: one weight for each item, not a score minus a shift. σ is at least 1e-12.
///
/// # Cost
/// One pass over the scores for the k-th largest of every item, then one product for each score.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct LocalScaling {
    /// Rank k of the neighbour that defines σ, from 1.
    pub k: usize,
    /// True to learn from the queries of the bank, false to learn from the test queries.
    pub query_bank: bool,
}

impl Default for LocalScaling {
    fn default() -> Self {
        Self { k: 10, query_bank: false }
    }
}

impl StatisticalMethod for LocalScaling {
    fn is_inductive(&self) -> bool {
        self.query_bank
    }

    fn problems(&self) -> ParameterProblems {
        check_count("k", self.k).into_iter().collect()
    }

    fn required_statistics(&self) -> RequiredStatistics {
        let kth = vec![Statistic::KthLargest { k: self.k }];
        RequiredStatistics {
            item_statistics: kth.clone(),
            query_statistics: kth,
            needs_distances: true,
            ..RequiredStatistics::default()
        }
    }

    fn correction(&self, statistics: &ScoreStatistics) -> Box<dyn Correction> {
        let sigmas = statistics.map_first(|score| statistics.distance.squared(score).sqrt().max(MIN_DISTANCE));
        Box::new(DistanceScaling::new(statistics.distance, DistanceForm::Squared, sigmas))
    }

    fn definition(&self, scores: &DenseScores, others: &DenseScores, distance: Distance) -> DenseScores {
        let sigma = |values: &mut dyn Iterator<Item = f64>| {
            let mut distances: Vec<f64> = values.map(|score| distance.squared(score).sqrt()).collect();
            distances.sort_by(f64::total_cmp);
            distances[(self.k - 1).min(distances.len() - 1)].max(MIN_DISTANCE)
        };
        DenseScores::from_fn(scores.queries, scores.items, |query, item| {
            let units = sigma(&mut scores.row(query)) * sigma(&mut others.column(item));
            (-distance.squared(scores.at(query, item)) / units).exp()
        })
    }
}
