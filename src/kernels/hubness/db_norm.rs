//! DBNorm: dual inverted softmax and its dynamic form, over a bank of queries and a bank of items.
//!
//! Wang, Jian, Xue, "Balance Act: Mitigating Hubness in Cross-Modal Retrieval with Query and Gallery Banks", EMNLP 2023;
//! free numbers as in its published code.

use super::dynamic::{Dynamic, activation_set};
use super::matrix::Matrix;
use super::shift::Shift;
use super::statistic::log_sum_exp;

/// DualIS, `s'(q, i) = exp(β₁·s(q, i)) / Σ exp(β₁·s(b, i)) · exp(β₂·s(q, i)) / Σ exp(β₂·s(c, i))` over the queries b of one
/// bank and the items c of another; s(c, i) compares two items.
///
/// In a ranking `s − (L₁(i) + L₂(i)) / (β₁ + β₂)`, one number an item, where L are the logarithms of the sums. Inductive.
/// Scores of different queries can be compared.
///
/// # Shapes
/// - `betas`: β₁, β₂
/// - `log_sums`: L₁ and L₂ of every item
///
/// # Cost
/// One pass over the scores of each bank with the items; one subtraction a score after that.
#[must_use]
pub fn dual_is(betas: [f64; 2], log_sums: [&[f64]; 2]) -> Shift {
    shift(betas, log_sums, [true, true])
}

/// DualDIS leaves a bank of [`dual_is`] out for those queries whose nearest item no member of that bank retrieves, and keeps
/// the scores where both banks are left out.
///
/// (The published code multiplies by the score itself instead of leaving a bank out, and so ranks by s² where both are;
/// negative scores would then come first.) Inductive. Scores of different queries cannot be compared.
///
/// # Shapes
/// - `betas`, `log_sums`: as for [`dual_is`]
/// - `activated`: for each bank, whether each item is in its [`activation_set`]
/// - `nearest`: for every test query its nearest item by uncorrected scores
#[must_use]
pub fn dual_dis(betas: [f64; 2], log_sums: [&[f64]; 2], activated: [&[bool]; 2], nearest: &[usize]) -> Dynamic {
    let choices = (0..4).map(|choice| shift(betas, log_sums, [choice & 1 == 1, choice & 2 == 2])).collect();
    let choice = |item: usize| usize::from(activated[0][item]) + 2 * usize::from(activated[1][item]);
    Dynamic::new(choices, nearest.iter().map(|&item| choice(item)).collect())
}

/// The shift of the banks that count.
fn shift(betas: [f64; 2], log_sums: [&[f64]; 2], counts: [bool; 2]) -> Shift {
    let chosen: Vec<usize> = (0..2).filter(|&bank| counts[bank]).collect();
    if chosen.is_empty() {
        return Shift::new(Vec::new(), Vec::new());
    }
    let beta: f64 = chosen.iter().map(|&bank| betas[bank]).sum();
    let sum = |item: usize| chosen.iter().map(|&bank| log_sums[bank][item]).sum::<f64>();
    Shift::new((0..log_sums[0].len()).map(|item| sum(item) / beta).collect(), Vec::new())
}

/// The definition of DualIS, or with a `k` of DualDIS; logarithms, where anything is corrected.
///
/// # Shapes
/// - `banks`: scores of the bank's queries, and of the bank's items, with the same items as `scores`
/// - `k`: first items of a member of a bank that count as retrieved
#[must_use]
pub fn db_norm(scores: &Matrix, banks: [&Matrix; 2], betas: [f64; 2], k: Option<usize>) -> Matrix {
    let activated = banks.map(|bank| {
        let (retrieved, k) = (bank.rankings(), k.unwrap_or(0).min(bank.items));
        activation_set(retrieved.iter().map(|items| &items[..k]), bank.items)
    });
    let nearest: Vec<usize> = scores.rankings().iter().map(|items| items[0]).collect();
    Matrix::from_fn(scores.queries, scores.items, |query, item| {
        let score = scores.at(query, item);
        let counts = |bank: usize| k.is_none() || activated[bank][nearest[query]];
        let logarithm =
            |bank: usize| betas[bank] * score - log_sum_exp(banks[bank].column(item).map(|other| betas[bank] * other));
        if counts(0) || counts(1) { (0..2).filter(|&bank| counts(bank)).map(logarithm).sum() } else { score }
    })
}
