//! Nearest neighbor normalization.
//!
//! Chowdhury, Wang, Shenoy, Kiela, Schwettmann, Thrush, "Nearest Neighbor Normalization Improves Multimodal Retrieval",
//! EMNLP 2024.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::csls::mean_of_largest;
use super::distance::Distance;
use super::matrix::Matrix;
use super::method::{Correction, Needs, StatisticalMethod, Statistics};
use super::problems::{Problems, none, not_a_weight};
use super::shift::Shift;
use super::statistic::Statistic;

/// The mean of an item's nearest queries of the bank is taken off (Chowdhury et al., EMNLP 2024):
/// `s'(q, i) = s(q, i) − α·r(i)`, where r is the mean of the item's `k` largest scores with the queries of the bank.
///
/// # Cost
/// One pass over the scores of the bank; one subtraction a score after that.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Nnn {
    /// Weight of the mean, α.
    pub alpha: f64,
    /// Queries that count.
    pub k: usize,
}

impl Default for Nnn {
    fn default() -> Self {
        Self { alpha: 0.75, k: 128 }
    }
}

impl StatisticalMethod for Nnn {
    fn of_bank(&self) -> bool {
        true
    }

    fn problems(&self) -> Problems {
        not_a_weight("alpha", self.alpha).into_iter().chain(none("k", self.k)).collect()
    }

    fn compares_queries(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { of_items: vec![Statistic::MeanOfLargest { k: self.k }], ..Needs::default() }
    }

    fn correction(&self, of: &Statistics) -> Box<dyn Correction> {
        let [items, _] = of.map(|mean| self.alpha * mean);
        Box::new(Shift::new(items, Vec::new()))
    }

    fn definition(&self, scores: &Matrix, others: &Matrix, _: Distance) -> Matrix {
        Matrix::from_fn(scores.queries, scores.items, |query, item| {
            scores.at(query, item) - self.alpha * mean_of_largest(others.column(item), self.k)
        })
    }
}
