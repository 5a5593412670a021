//! Sinkhorn normalisation: every query and every item gets its equal share of the probability.
//!
//! Sinkhorn and Knopp, "Concerning nonnegative matrices and doubly stochastic matrices", 1967; for retrieval: Pan, Wang, Wu,
//! Zhang, Bu, "Hubness Reduction with Dual Bank Sinkhorn Normalization for Cross-Modal Retrieval", ACM MM 2025, whose code
//! gives the free numbers and the order of the steps.

use super::matrix::Matrix;
use super::problems::{Problems, none, not_a_temperature};
use super::shift::Shift;
use super::statistic::log_sum_exp;

/// `P = diag(u)·exp(S/τ)·diag(v)` whose rows sum to 1/n and whose columns sum to 1/m, approached by scaling rows, then
/// columns, a number of times. `s'(q, i) = s(q, i) − h(i)` with `h = −τ·ln v`, one number an item; across queries
/// `s − h(i) − g(q)` with `g = −τ·ln u`.
///
/// Needs all scores once an iteration: of the test queries, and then it is transductive, or of the queries of a bank with the
/// items, and then it is inductive.
///
/// # Cost
/// One pass over all scores for each iteration; one subtraction a score after that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sinkhorn {
    /// Temperature, τ.
    pub tau: f64,
    /// How often rows and columns are scaled.
    pub iterations: usize,
}

impl Default for Sinkhorn {
    fn default() -> Self {
        Self { tau: 0.01, iterations: 10 }
    }
}

impl Sinkhorn {
    /// What is wrong with the free numbers.
    #[must_use]
    pub fn problems(&self) -> Problems {
        not_a_temperature("tau", self.tau).into_iter().chain(none("iterations", self.iterations)).collect()
    }

    /// The correction.
    ///
    /// # Shapes
    /// - `h`: of every item
    /// - `g`: of every query; may be empty where no two queries are compared, as with a bank
    #[must_use]
    pub fn correction(h: Vec<f64>, g: Vec<f64>) -> Shift {
        Shift::new(h, g)
    }
}

/// The definition: h of the items and g of the queries; g is the one that the last step for the items began with.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
pub fn sinkhorn(scores: &Matrix, settings: &Sinkhorn) -> (Vec<f64>, Vec<f64>) {
    let (rows, columns) = ((scores.queries as f64).ln(), (scores.items as f64).ln());
    let Sinkhorn { tau, iterations } = *settings;
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
