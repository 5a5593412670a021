//! Inverted softmax: a softmax over the queries instead of the items.
//!
//! Smith, Turban, Hamblin, Hammerla, "Offline bilingual word vectors, orthogonal transformations and the inverted
//! softmax", ICLR 2017; equation 5 of Liu and Ye, "A Strong and Robust Baseline for Text-Image Matching", ACL SRW 2019.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distance::Distance;
use super::method::{
    Correction, DenseScores, ParameterProblems, RequiredStatistics, ScoreStatistics, ShiftCorrection, Statistic,
    StatisticalMethod, check_inverse_temperature, log_sum_exp,
};

/// Softmax over queries instead of items (Smith et al., ICLR 2017; Liu, Ye, 2019):
/// `s'(q, i) = exp(β·s(q, i)) / Σ exp(β·s(q̄, i))`, summed over the queries q̄ of the bank or of the test.
///
/// The ranking is by `s − ln Σ exp(β·s(q̄, i)) / β`, one shift for each item. The sum includes the query itself in
/// MUSE's code and excludes it in the papers. This changes no ranking and no matching: if p is the score with the query
/// included, it is p / (1 − p) without it, the same increasing function for all pairs. So there is no setting for it.
/// (The exception is rounding: a p near 1 rounds to 1. This happens if β times the lead of a query over all other
/// queries is above 16, and rounding then decides among such items.)
///
/// # Cost
/// One pass over the scores of the queries of the sum, then one subtraction for each score.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct InvertedSoftmax {
    /// Inverse temperature, β. The papers take 30, for cosines that span all of [−1, 1].
    pub beta: f64,
    /// True to learn from the queries of the bank, false to learn from the test queries.
    pub query_bank: bool,
}

impl Default for InvertedSoftmax {
    fn default() -> Self {
        Self { beta: 30.0, query_bank: false }
    }
}

impl StatisticalMethod for InvertedSoftmax {
    fn is_inductive(&self) -> bool {
        self.query_bank
    }

    fn problems(&self) -> ParameterProblems {
        check_inverse_temperature("beta", self.beta).into_iter().collect()
    }

    fn compares_queries(&self) -> bool {
        true
    }

    fn required_statistics(&self) -> RequiredStatistics {
        RequiredStatistics {
            item_statistics: vec![Statistic::LogSumExp { beta: self.beta }],
            ..RequiredStatistics::default()
        }
    }

    fn correction(&self, statistics: &ScoreStatistics) -> Box<dyn Correction> {
        let [items, _] = statistics.map_first(|log_sum| log_sum / self.beta);
        Box::new(ShiftCorrection::new(items, Vec::new()))
    }

    fn definition(&self, scores: &DenseScores, others: &DenseScores, _: Distance) -> DenseScores {
        inverted_softmax(scores, self.query_bank.then_some(others), self.beta, NormalisationSet::OtherQueries)
    }
}

/// Queries that the scores of an item are normalised over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormalisationSet {
    /// All queries except the query itself (Liu and Ye).
    OtherQueries,
    /// All queries (Smith et al., and the code of MUSE).
    AllQueries,
}

/// `ln s'`: the definition, as a logarithm because s' itself may overflow f64.
///
/// # Shapes
/// - `bank`: scores of the queries of a bank with the same items; `None` normalises over the test queries themselves
///
/// # Edge cases
/// +∞ for every item if there is only one test query and it is excluded.
#[must_use]
pub fn inverted_softmax(
    scores: &DenseScores,
    bank: Option<&DenseScores>,
    beta: f64,
    over: NormalisationSet,
) -> DenseScores {
    DenseScores::from_fn(scores.queries, scores.items, |query, item| {
        let own = |q: usize| bank.is_none() && over == NormalisationSet::OtherQueries && q == query;
        let all = bank.unwrap_or(scores);
        let terms = (0..all.queries).filter(|&q| !own(q)).map(|q| beta * all.at(q, item));
        beta * scores.at(query, item) - log_sum_exp(terms)
    })
}
