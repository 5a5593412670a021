//! Inverted softmax: a softmax over the queries instead of the items.
//!
//! Smith, Turban, Hamblin, Hammerla, "Offline bilingual word vectors, orthogonal transformations and the inverted softmax",
//! ICLR 2017; equation 5 of Liu and Ye, "A Strong and Robust Baseline for Text-Image Matching", ACL SRW 2019.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distance::Distance;
use super::matrix::Matrix;
use super::method::{Correction, Needs, StatisticalMethod, Statistics};
use super::problems::{Problems, not_a_beta};
use super::shift::Shift;
use super::statistic::{Statistic, log_sum_exp};

/// A softmax over queries in place of items (Smith et al., ICLR 2017; Liu, Ye, 2019):
/// `s'(q, i) = exp(β·s(q, i)) / Σ exp(β·s(q̄, i))` over queries q̄, of the bank or of the test.
///
/// In a ranking `s − ln Σ exp(β·s(q̄, i)) / β`, one number an item. Whether the query itself is among those that it is
/// normalised over (as in MUSE's code) or not (as in the papers) changes no ranking and no matching: with p its share of all,
/// it has p / (1 − p) of the others, which grows with p and is the same function for all pairs. So there is no setting for it.
/// (Where β times the lead of a query over all others is above 16 for several items, their shares are 1 up to rounding, which
/// then decides among them.)
///
/// # Cost
/// One pass over the scores of the normalising queries; one subtraction a score after that.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct InvertedSoftmax {
    /// Inverse temperature, β. The papers take 30, for cosines that span all of [−1, 1].
    pub beta: f64,
    /// True if queries are those of the bank.
    pub bank: bool,
}

impl Default for InvertedSoftmax {
    fn default() -> Self {
        Self { beta: 30.0, bank: false }
    }
}

impl StatisticalMethod for InvertedSoftmax {
    fn of_bank(&self) -> bool {
        self.bank
    }

    fn problems(&self) -> Problems {
        not_a_beta("beta", self.beta).into_iter().collect()
    }

    fn compares_queries(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { of_items: vec![Statistic::LogSumExp { beta: self.beta }], ..Needs::default() }
    }

    fn correction(&self, of: &Statistics) -> Box<dyn Correction> {
        let [items, _] = of.map(|log_sum| log_sum / self.beta);
        Box::new(Shift::new(items, Vec::new()))
    }

    fn definition(&self, scores: &Matrix, others: &Matrix, _: Distance) -> Matrix {
        inverted_softmax(scores, self.bank.then_some(others), self.beta, Normaliser::Others)
    }
}

/// Which queries an item is normalised over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normaliser {
    /// All but the query itself (Liu and Ye).
    Others,
    /// All (Smith et al., and the code of MUSE).
    All,
}

/// `ln s'`, the definition, in the domain of logarithms because the quotient need not be an f64.
///
/// # Shapes
/// - `bank`: scores of the queries of a bank with the same items; `None` normalises over the test queries themselves
///
/// # Edge cases
/// A single query without others gets +∞ for every item.
#[must_use]
pub fn inverted_softmax(scores: &Matrix, bank: Option<&Matrix>, beta: f64, over: Normaliser) -> Matrix {
    Matrix::from_fn(scores.queries, scores.items, |query, item| {
        let own = |q: usize| bank.is_none() && over == Normaliser::Others && q == query;
        let all = bank.unwrap_or(scores);
        let terms = (0..all.queries).filter(|&q| !own(q)).map(|q| beta * all.at(q, item));
        beta * scores.at(query, item) - log_sum_exp(terms)
    })
}
