//! Inverted softmax: a softmax over the queries instead of the items.
//!
//! Smith, Turban, Hamblin, Hammerla, "Offline bilingual word vectors, orthogonal transformations and the inverted softmax",
//! ICLR 2017; equation 5 of Liu and Ye, "A Strong and Robust Baseline for Text-Image Matching", ACL SRW 2019.

use super::matrix::Matrix;
use super::method::{Correction, Method, Needs};
use super::problems::{Problems, not_a_beta};
use super::shift::Shift;
use super::statistic::{Statistic, log_sum_exp};

/// Which queries an item is normalised over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normaliser {
    /// All but the query itself (Liu and Ye).
    Others,
    /// All (Smith et al., and the code of MUSE).
    All,
}

/// `s'(q, i) = exp(β·s(q, i)) / Σ exp(β·s(q̄, i))` over queries q̄, of a bank (inductive) or of the test (transductive).
///
/// In a ranking `s − ln Σ exp(β·s(q̄, i)) / β`, one number an item. Both [`Normaliser`]s give that ranking: with p the share of
/// the query in the sum over all, the score without it is `p / (1 − p)`, which grows with p. It is the same function of p for all
/// pairs, so matchings, which compare the scores of different queries, are the same too. That is so as long as p can be told from
/// 1: sums are of f32 scores, so where a query leads all others by more than 16/β for several items, rounding decides among these.
///
/// # Cost
/// One pass over the scores of the normalising queries; one subtraction a score after that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InvertedSoftmax {
    /// Inverse temperature, β. The papers take 30, which suits cosines that span all of [−1, 1].
    pub beta: f64,
}

impl Default for InvertedSoftmax {
    fn default() -> Self {
        Self { beta: 30.0 }
    }
}

impl Method for InvertedSoftmax {
    fn problems(&self) -> Problems {
        not_a_beta("beta", self.beta).into_iter().collect()
    }

    fn needs(&self) -> Needs {
        Needs { of_items: vec![Statistic::LogSumExp { beta: self.beta }], ..Needs::default() }
    }

    fn correction(&self, items: &[Vec<f64>], _: &[Vec<f64>]) -> Box<dyn Correction> {
        Box::new(self.shift(&items[0]))
    }
}

impl InvertedSoftmax {
    /// The correction, from `ln Σ exp(β·s)` of every item.
    #[must_use]
    pub fn shift(&self, log_sums: &[f64]) -> Shift {
        Shift::new(log_sums.iter().map(|log_sum| log_sum / self.beta).collect(), Vec::new())
    }
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
