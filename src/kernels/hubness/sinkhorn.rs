//! Sinkhorn normalisation: all queries get equal probability, and so do all items. Dual-bank Sinkhorn: of a bank
//! of queries with the items and a bank of items.
//!
//! Sinkhorn and Knopp, "Concerning nonnegative matrices and doubly stochastic matrices", 1967; for retrieval: Pan,
//! Wang, Wu, Zhang, Bu, "Hubness Reduction with Dual Bank Sinkhorn Normalization for Cross-Modal Retrieval", ACM MM
//! 2025; parameters and order of the steps as in its code.

use super::method::{DenseScores, ShiftCorrection, log_sum_exp};

/// Computes the potentials h of the items and g of the queries by Sinkhorn's iterations: the definition.
///
/// The iterations scale rows, then columns, of `P = diag(u)·exp(S/τ)·diag(v)`, so that rows sum to 1/n and columns to
/// 1/m. `h = −τ·ln v` and `g = −τ·ln u`; g is the value that the last update of h used. The corrected score is `s'(q,
/// i) = s(q, i) − h(i)`, one shift for each item; `s − h(i) − g(q)` is comparable between queries.
///
/// Needs all scores in each iteration: those of the test queries (transductive), or of the queries of a bank with the
/// items (inductive).
///
/// # Cost
/// One pass over all scores for each iteration, then one subtraction for each score.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
pub fn sinkhorn(scores: &DenseScores, tau: f64, iterations: usize) -> (Vec<f64>, Vec<f64>) {
    let (rows, columns) = ((scores.queries as f64).ln(), (scores.items as f64).ln());
    let (mut h, mut g) = (vec![tau * columns; scores.items], vec![0.0; scores.queries]);
    for _ in 0..iterations {
        for (query, g) in g.iter_mut().enumerate() {
            *g = tau * (rows + log_sum_exp(scores.row(query).zip(&h).map(|(score, h)| (score - h) / tau)));
        }
        for (item, h) in h.iter_mut().enumerate() {
            *h = tau * (columns + log_sum_exp(scores.column(item).zip(&g).map(|(score, g)| (score - g) / tau)));
        }
    }
    (h, g)
}

// Dual-bank Sinkhorn normalisation: Pan, Wang, Wu, Zhang, Bu, "Hubness Reduction with Dual Bank Sinkhorn Normalization for Cross-Modal Retrieval", ACM
// MM 2025 (arXiv 2508.02538).

/// Correction of dual-bank Sinkhorn: `s'(q, i) = s(q, i) − h(i)`. h comes from a [`sinkhorn()`] normalisation of the
/// scores of the bank's queries with the items of the pool, followed by the items of the bank.
///
/// The matches of the bank's queries may be missing from the pool. Without the bank's items, the probability of these
/// queries would go to wrong items. Needs a bank of queries and a bank of items, preferably matching ones. Inductive.
///
/// # Shapes
/// - `h`: of the items, then of the bank's items
/// - `items`: number of items of the pool
#[must_use]
pub fn dual_bank_correction(h: &[f64], items: usize) -> ShiftCorrection {
    ShiftCorrection::new(h[..items].to_vec(), Vec::new())
}

/// The definition: h of the items.
///
/// # Shapes
/// - `items`: scores of the bank's queries with the items
/// - `bank`: scores of the bank's queries with the bank's items
#[must_use]
pub fn dual_bank_sinkhorn(items: &DenseScores, bank: &DenseScores, tau: f64, iterations: usize) -> Vec<f64> {
    let both = DenseScores::from_fn(items.queries, items.items + bank.items, |query, item| {
        if item < items.items { items.at(query, item) } else { bank.at(query, item - items.items) }
    });
    let (mut h, _) = sinkhorn(&both, tau, iterations);
    h.truncate(items.items);
    h
}
