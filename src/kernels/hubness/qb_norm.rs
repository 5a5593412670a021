//! QB-Norm: querybank normalisation with the dynamic inverted softmax.
//!
//! Bogolin, Croitoru, Jin, Liu, Albanie, "Cross Modal Retrieval with Querybank Normalisation", CVPR 2022; free numbers as in
//! its published code.

use super::dynamic::{Dynamic, activation_set};
use super::matrix::Matrix;
use super::shift::Shift;
use super::statistic::log_sum_exp;

/// The inverted softmax over a bank of queries, for those queries only whose nearest item is in the activation set: the
/// items that are among the first `k` of any query of the bank. Other queries keep their scores.
///
/// Needs of a bank `ln Σ exp(β·s)` of every item and the first `k` items of every query; of a test query its own nearest
/// item. Inductive. One number an item, or none, for each query. Corrected and uncorrected rows are on different scales, so
/// scores of different queries cannot be compared: no matching over them.
///
/// # Shapes
/// - `log_sums`: `ln Σ exp(β·s)` of every item with the bank
/// - `activated`: whether each item is in the [`activation_set`]
/// - `nearest`: for every test query its nearest item by uncorrected scores
///
/// # Cost
/// One pass over the scores of the bank; one subtraction a score after that.
#[must_use]
pub fn correction(beta: f64, log_sums: &[f64], activated: &[bool], nearest: &[usize]) -> Dynamic {
    let corrected = Shift::new(log_sums.iter().map(|log_sum| log_sum / beta).collect(), Vec::new());
    let choices = vec![Shift::new(Vec::new(), Vec::new()), corrected];
    Dynamic::new(choices, nearest.iter().map(|&item| usize::from(activated[item])).collect())
}

/// The definition, on scores of the test and of the bank with the same items. Corrected rows are logarithms of the inverted
/// softmax, which need not be an f64.
#[must_use]
pub fn qb_norm(scores: &Matrix, bank: &Matrix, beta: f64, k: usize) -> Matrix {
    let retrieved = bank.rankings();
    let activated = activation_set(retrieved.iter().map(|items| &items[..k.min(items.len())]), bank.items);
    let nearest: Vec<usize> = scores.rankings().iter().map(|items| items[0]).collect();
    Matrix::from_fn(scores.queries, scores.items, |query, item| {
        let score = scores.at(query, item);
        if !activated[nearest[query]] {
            return score;
        }
        beta * score - log_sum_exp(bank.column(item).map(|other| beta * other))
    })
}
