//! Nearest neighbor normalization.
//!
//! Chowdhury, Wang, Shenoy, Kiela, Schwettmann, Thrush, "Nearest Neighbor Normalization Improves Multimodal Retrieval",
//! EMNLP 2024.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::csls::mean_of_largest;
use super::distance::Distance;
use super::method::{
    Correction, DenseScores, ParameterProblems, RequiredStatistics, ScoreStatistics, ShiftCorrection, Statistic,
    StatisticalMethod, check_count, check_weight,
};

/// Subtracts the mean score of an item with its nearest queries of the bank (Chowdhury et al., EMNLP 2024):
/// `s'(q, i) = s(q, i) − α·r(i)`, where r(i) is the mean of the item's `k` largest scores with the queries of the bank.
///
/// # Cost
/// One pass over the scores of the bank, then one subtraction for each score.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Nnn {
    /// Weight of the mean, α.
    pub alpha: f64,
    /// Number of nearest queries.
    pub k: usize,
}

impl Default for Nnn {
    fn default() -> Self {
        Self { alpha: 0.75, k: 128 }
    }
}

impl StatisticalMethod for Nnn {
    fn is_inductive(&self) -> bool {
        true
    }

    fn problems(&self) -> ParameterProblems {
        check_weight("alpha", self.alpha).into_iter().chain(check_count("k", self.k)).collect()
    }

    fn compares_queries(&self) -> bool {
        true
    }

    fn required_statistics(&self) -> RequiredStatistics {
        RequiredStatistics {
            item_statistics: vec![Statistic::MeanOfLargest { k: self.k }],
            ..RequiredStatistics::default()
        }
    }

    fn correction(&self, statistics: &ScoreStatistics) -> Box<dyn Correction> {
        let [items, _] = statistics.map_first(|mean| self.alpha * mean);
        Box::new(ShiftCorrection::new(items, Vec::new()))
    }

    fn definition(&self, scores: &DenseScores, others: &DenseScores, _: Distance) -> DenseScores {
        DenseScores::from_fn(scores.queries, scores.items, |query, item| {
            scores.at(query, item) - self.alpha * mean_of_largest(others.column(item), self.k)
        })
    }
}
