//! QB-Norm: querybank normalisation with the dynamic inverted softmax.
//!
//! Bogolin, Croitoru, Jin, Liu, Albanie, "Cross Modal Retrieval with Querybank Normalisation", CVPR 2022; free numbers as in
//! its published code.

use super::dynamic::{Dynamic, activation_set};
use super::inverted_softmax::InvertedSoftmax;
use super::matrix::Matrix;
use super::problems::{Problems, none, not_a_beta};
use super::shift::Shift;
use super::statistic::{Statistic, log_sum_exp};

/// The inverted softmax over a bank of queries, for those queries only whose nearest item is in the activation set: the
/// items that are among the first `k` of any query of the bank. Other queries keep their scores.
///
/// Needs of a bank `ln Σ exp(β·s)` of every item and the first `k` items of every query; of a test query its own nearest
/// item. Inductive. One number an item, or none, for each query. Corrected and uncorrected rows are on different scales, so
/// scores of different queries cannot be compared: no matching over them.
///
/// # Cost
/// One pass over the scores of the bank; one subtraction a score after that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QbNorm {
    /// Inverse temperature, β.
    pub beta: f64,
    /// First items of a query of the bank that count as retrieved.
    pub k: usize,
}

impl Default for QbNorm {
    fn default() -> Self {
        Self { beta: 20.0, k: 1 }
    }
}

impl QbNorm {
    /// What is wrong with the free numbers.
    #[must_use]
    pub fn problems(&self) -> Problems {
        not_a_beta("beta", self.beta).into_iter().chain(none("k", self.k)).collect()
    }

    /// The statistic of an item's scores with the bank.
    #[must_use]
    pub fn of_items(&self) -> Statistic {
        Statistic::LogSumExp { beta: self.beta }
    }

    /// The correction.
    ///
    /// # Shapes
    /// - `log_sums`: [`QbNorm::of_items`] of every item
    /// - `activated`: whether each item is in the [`activation_set`]
    /// - `nearest`: for every test query its nearest item by uncorrected scores
    #[must_use]
    pub fn correction(&self, log_sums: &[f64], activated: &[bool], nearest: &[usize]) -> Dynamic {
        let corrected = InvertedSoftmax { beta: self.beta }.shift(log_sums);
        let choices = vec![Shift::new(Vec::new(), Vec::new()), corrected];
        Dynamic::new(choices, nearest.iter().map(|&item| usize::from(activated[item])).collect())
    }
}

/// The definition, on scores of the test and of the bank with the same items. Corrected rows are logarithms of the inverted
/// softmax, which need not be an f64.
#[must_use]
pub fn qb_norm(scores: &Matrix, bank: &Matrix, settings: &QbNorm) -> Matrix {
    let retrieved = bank.rankings();
    let activated = activation_set(retrieved.iter().map(|items| &items[..settings.k.min(items.len())]), bank.items);
    let nearest: Vec<usize> = scores.rankings().iter().map(|items| items[0]).collect();
    Matrix::from_fn(scores.queries, scores.items, |query, item| {
        let score = scores.at(query, item);
        if !activated[nearest[query]] {
            return score;
        }
        settings.beta * score - log_sum_exp(bank.column(item).map(|other| settings.beta * other))
    })
}
