//! QB-Norm: querybank normalisation with the dynamic inverted softmax.
//!
//! Bogolin, Croitoru, Jin, Liu, Albanie, "Cross Modal Retrieval with Querybank Normalisation", CVPR 2022; parameters as
//! in its published code.

use super::method::DenseScores;
use super::method::ShiftCorrection;
use super::method::log_sum_exp;
use super::method::{PerQueryCorrection, activation_set};

/// Correction of QB-Norm: the inverted softmax over a query bank, for queries whose nearest item is in the activation
/// set. The activation set holds the items that are among the first `k` of any query of the bank. Other queries keep
/// their scores.
///
/// Needs `ln Σ exp(β·s)` of every item with the bank, the first `k` items of every query of the bank, and the nearest
/// item of every test query. Inductive. The correction of a query is either one shift for each item, or nothing.
/// Corrected and uncorrected rows have different scales, so scores of different queries are not comparable, and no
/// matching can use them.
///
/// # Shapes
/// - `log_sums`: `ln Σ exp(β·s)` of every item with the bank
/// - `activated`: for each item, true if it is in the [`activation_set`]
/// - `nearest`: for every test query its nearest item by uncorrected scores
///
/// # Cost
/// One pass over the scores of the bank, then one subtraction for each score.
#[must_use]
pub fn qb_norm_correction(beta: f64, log_sums: &[f64], activated: &[bool], nearest: &[usize]) -> PerQueryCorrection {
    let corrected = ShiftCorrection::new(log_sums.iter().map(|log_sum| log_sum / beta).collect(), Vec::new());
    let choices = vec![ShiftCorrection::new(Vec::new(), Vec::new()), corrected];
    PerQueryCorrection::new(choices, nearest.iter().map(|&item| usize::from(activated[item])).collect())
}

/// The definition, on the scores of the test queries and of the bank with the same items. Corrected rows are logarithms
/// of the inverted softmax, because the softmax itself may overflow f64.
#[must_use]
pub fn qb_norm(scores: &DenseScores, bank: &DenseScores, beta: f64, k: usize) -> DenseScores {
    let retrieved = bank.rankings();
    let activated = activation_set(retrieved.iter().map(|items| &items[..k.min(items.len())]), bank.items);
    let nearest: Vec<usize> = scores.rankings().iter().map(|items| items[0]).collect();
    DenseScores::from_fn(scores.queries, scores.items, |query, item| {
        let score = scores.at(query, item);
        if !activated[nearest[query]] {
            return score;
        }
        beta * score - log_sum_exp(bank.column(item).map(|other| beta * other))
    })
}
