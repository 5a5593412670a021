//! Sinkhorn normalisation: every query and every item gets its equal share of the probability.
//!
//! Sinkhorn and Knopp, "Concerning nonnegative matrices and doubly stochastic matrices", 1967; for retrieval: Pan, Wang, Wu,
//! Zhang, Bu, "Hubness Reduction with Dual Bank Sinkhorn Normalization for Cross-Modal Retrieval", ACM MM 2025, whose code
//! gives the free numbers and the order of the steps.

use super::matrix::Matrix;
use super::statistic::log_sum_exp;

/// `P = diag(u)·exp(S/τ)·diag(v)` whose rows sum to 1/n and whose columns sum to 1/m, approached by scaling rows, then
/// columns, a number of times. `s'(q, i) = s(q, i) − h(i)` with `h = −τ·ln v`, one number an item; across queries
/// `s − h(i) − g(q)` with `g = −τ·ln u`.
///
/// The definition of h of the items and g of the queries; g is the one that the last step for the items began with. Needs all
/// scores once an iteration: of the test queries, and then it is transductive, or of the queries of a bank with the items, and
/// then it is inductive.
///
/// # Cost
/// One pass over all scores for each iteration; one subtraction a score after that.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
pub fn sinkhorn(scores: &Matrix, tau: f64, iterations: usize) -> (Vec<f64>, Vec<f64>) {
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
