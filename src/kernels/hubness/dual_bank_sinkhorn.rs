//! Dual-bank Sinkhorn normalisation: a bank of queries against the items and a bank of items together.
//!
//! Pan, Wang, Wu, Zhang, Bu, "Hubness Reduction with Dual Bank Sinkhorn Normalization for Cross-Modal Retrieval", ACM MM 2025
//! (arXiv 2508.02538).

use super::matrix::Matrix;
use super::shift::Shift;
use super::sinkhorn::sinkhorn;

/// `s'(q, i) = s(q, i) − h(i)`, with h of a [`sinkhorn()`] normalisation between the queries of a bank on one side, and the
/// items and the items of a bank on the other.
///
/// A bank of queries alone asks for items that the pool may not have; with the items of the bank beside them, the bank's
/// queries need not be shared out among the wrong ones. Needs a bank of queries and a bank of items, best the ones that
/// match; inductive. A [`sinkhorn()`] normalisation of the bank's queries with one pool: the items, then the bank's items.
///
/// # Shapes
/// - `h`: of the items, then of the bank's items
/// - `items`: how many of them are the pool's
#[must_use]
pub fn correction(h: &[f64], items: usize) -> Shift {
    Shift::new(h[..items].to_vec(), Vec::new())
}

/// The definition: h of the items.
///
/// # Shapes
/// - `items`: scores of the bank's queries with the items
/// - `bank`: scores of the bank's queries with the bank's items
#[must_use]
pub fn dual_bank_sinkhorn(items: &Matrix, bank: &Matrix, tau: f64, iterations: usize) -> Vec<f64> {
    let both = Matrix::from_fn(items.queries, items.items + bank.items, |query, item| {
        if item < items.items { items.at(query, item) } else { bank.at(query, item - items.items) }
    });
    let (mut h, _) = sinkhorn(&both, tau, iterations);
    h.truncate(items.items);
    h
}
