//! Nearest neighbor normalization.
//!
//! Chowdhury, Wang, Shenoy, Kiela, Schwettmann, Thrush, "Nearest Neighbor Normalization Improves Multimodal Retrieval",
//! EMNLP 2024.

use super::csls::mean_of_largest;
use super::matrix::Matrix;
use super::method::{Correction, Method, Needs};
use super::problems::{Problems, none, not_a_weight};
use super::shift::Shift;
use super::statistic::Statistic;

/// `s'(q, i) = s(q, i) − α·r(i)`, where r is the mean of the item's `k` largest scores with the queries of a bank.
/// Inductive; with the test queries for a bank, transductive.
///
/// # Cost
/// One pass over the scores of the bank; one subtraction a score after that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nnn {
    /// Weight, α.
    pub alpha: f64,
    /// Neighbours that count, k.
    pub k: usize,
}

impl Default for Nnn {
    fn default() -> Self {
        Self { alpha: 0.75, k: 128 }
    }
}

impl Method for Nnn {
    fn problems(&self) -> Problems {
        not_a_weight("alpha", self.alpha).into_iter().chain(none("k", self.k)).collect()
    }

    fn needs(&self) -> Needs {
        Needs { of_items: vec![Statistic::MeanOfLargest { k: self.k }], ..Needs::default() }
    }

    fn correction(&self, items: &[Vec<f64>], _: &[Vec<f64>]) -> Box<dyn Correction> {
        Box::new(Shift::new(items[0].iter().map(|mean| self.alpha * mean).collect(), Vec::new()))
    }
}

/// The definition; `bank` holds the scores of the bank's queries with the same items.
#[must_use]
pub fn nnn(scores: &Matrix, bank: &Matrix, settings: &Nnn) -> Matrix {
    Matrix::from_fn(scores.queries, scores.items, |query, item| {
        scores.at(query, item) - settings.alpha * mean_of_largest(bank.column(item), settings.k)
    })
}
