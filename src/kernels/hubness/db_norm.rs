//! DBNorm: dual inverted softmax and its dynamic variant, over a bank of queries and a bank of items.
//!
//! Wang, Jian, Xue, "Balance Act: Mitigating Hubness in Cross-Modal Retrieval with Query and Gallery Banks", EMNLP
//! 2023; parameters as in its published code.

use super::method::DenseScores;
use super::method::ShiftCorrection;
use super::method::log_sum_exp;
use super::method::{PerQueryCorrection, activation_set};

/// Dual inverted softmax (DualIS): `s'(q, i) = exp(β₁·s(q, i)) / Σ exp(β₁·s(b, i)) · exp(β₂·s(q, i)) / Σ exp(β₂·s(c,
/// i))`. The first sum is over the queries b of one bank, the second over the items c of another; s(c, i) compares two
/// items.
///
/// The ranking is by `s − (L₁(i) + L₂(i)) / (β₁ + β₂)`, one shift for each item, where L₁ and L₂ are the logarithms of
/// the sums. Inductive. Scores of different queries are comparable.
///
/// # Shapes
/// - `betas`: β₁, β₂
/// - `log_sums`: L₁ and L₂ of every item
///
/// # Cost
/// One pass over the scores of each bank with the items, then one subtraction for each score.
#[must_use]
pub fn dual_inverted_softmax(betas: [f64; 2], log_sums: [&[f64]; 2]) -> ShiftCorrection {
    shift(betas, log_sums, [true, true])
}

/// Dual dynamic inverted softmax (DualDIS): [`dual_inverted_softmax`] that leaves out a bank for queries whose nearest
/// item is not retrieved by any member of that bank. If both banks are left out, the scores stay as they are.
///
/// The published code multiplies by the score itself instead of leaving out a bank. So it ranks by s² if both banks are
/// left out, and negative scores would come first. Inductive. Scores of different queries are not comparable.
///
/// # Shapes
/// - `betas`, `log_sums`: as for [`dual_inverted_softmax`]
/// - `activated`: for each bank and each item, true if the item is in the bank's [`activation_set`]
/// - `nearest`: for every test query its nearest item by uncorrected scores
#[must_use]
pub fn dual_dynamic_inverted_softmax(
    betas: [f64; 2],
    log_sums: [&[f64]; 2],
    activated: [&[bool]; 2],
    nearest: &[usize],
) -> PerQueryCorrection {
    let choices = (0..4).map(|choice| shift(betas, log_sums, [choice & 1 == 1, choice & 2 == 2])).collect();
    let choice = |item: usize| usize::from(activated[0][item]) + 2 * usize::from(activated[1][item]);
    PerQueryCorrection::new(choices, nearest.iter().map(|&item| choice(item)).collect())
}

/// Shift correction by the banks that are not left out.
fn shift(betas: [f64; 2], log_sums: [&[f64]; 2], counts: [bool; 2]) -> ShiftCorrection {
    let chosen: Vec<usize> = (0..2).filter(|&bank| counts[bank]).collect();
    if chosen.is_empty() {
        return ShiftCorrection::new(Vec::new(), Vec::new());
    }
    let beta: f64 = chosen.iter().map(|&bank| betas[bank]).sum();
    let sum = |item: usize| chosen.iter().map(|&bank| log_sums[bank][item]).sum::<f64>();
    ShiftCorrection::new((0..log_sums[0].len()).map(|item| sum(item) / beta).collect(), Vec::new())
}

/// The definition of DualIS, or of DualDIS if `k` is given. Corrected rows are logarithms.
///
/// # Shapes
/// - `banks`: scores of the bank's queries, and of the bank's items, with the same items as `scores`
/// - `k`: first items of a member of a bank that count as retrieved
#[must_use]
pub fn db_norm(scores: &DenseScores, banks: [&DenseScores; 2], betas: [f64; 2], k: Option<usize>) -> DenseScores {
    let activated = banks.map(|bank| {
        let (retrieved, k) = (bank.rankings(), k.unwrap_or(0).min(bank.items));
        activation_set(retrieved.iter().map(|items| &items[..k]), bank.items)
    });
    let nearest: Vec<usize> = scores.rankings().iter().map(|items| items[0]).collect();
    DenseScores::from_fn(scores.queries, scores.items, |query, item| {
        let score = scores.at(query, item);
        let counts = |bank: usize| k.is_none() || activated[bank][nearest[query]];
        let logarithm =
            |bank: usize| betas[bank] * score - log_sum_exp(banks[bank].column(item).map(|other| betas[bank] * other));
        if counts(0) || counts(1) { (0..2).filter(|&bank| counts(bank)).map(logarithm).sum() } else { score }
    })
}
