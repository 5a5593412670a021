//! Dual-bank Sinkhorn normalisation: of a bank of queries with the items and a bank of items.
//!
//! Pan, Wang, Wu, Zhang, Bu, "Hubness Reduction with Dual Bank Sinkhorn Normalization for Cross-Modal Retrieval", ACM
//! MM 2025 (arXiv 2508.02538).

use super::dense_scores::DenseScores;
use super::shift::ShiftCorrection;
use super::sinkhorn::sinkhorn;

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
