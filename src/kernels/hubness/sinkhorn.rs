//! Sinkhorn normalisation: every query and every item gets its equal share of the probability.
//!
//! Sinkhorn and Knopp, "Concerning nonnegative matrices and doubly stochastic matrices", 1967; for retrieval: Pan, Wang, Wu,
//! Zhang, Bu, "Hubness Reduction with Dual Bank Sinkhorn Normalization for Cross-Modal Retrieval", ACM MM 2025, whose code
//! gives the free numbers and the order of the steps.

use super::matrix::Matrix;
use super::problems::{Problems, none, not_a_temperature};
use super::statistic::log_sum_exp;
use crate::kernels::exp::exp;

/// `P = diag(u)·exp(S/τ)·diag(v)` whose rows sum to 1/n and whose columns sum to 1/m, approached by scaling rows, then
/// columns, a number of times. `s'(q, i) = s(q, i) − h(i)` with `h = −τ·ln v`, one number an item; across queries
/// `s − h(i) − g(q)`.
///
/// On the test queries transductive; on the queries of a bank inductive.
///
/// # Cost
/// One pass over all scores for each iteration, and one exponential a score in it; `O(items)` memory ([`Pass`]).
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
    /// What is wrong with the free numbers, for scores that are at most `range` apart (2 for cosines).
    ///
    /// A score and an h are at most twice the range apart from others, and exponentials reach down to e⁻⁷⁰⁸.
    #[must_use]
    pub fn problems(&self, range: f64) -> Problems {
        let coldest = 2.0 * range / 700.0;
        let too_cold = (self.tau < coldest).then(|| {
            let wanted = format!("got {}, wanted at least {coldest}: scores may be {range} apart", self.tau);
            ("tau", wanted)
        });
        not_a_temperature("tau", self.tau).or(too_cold).into_iter().chain(none("iterations", self.iterations)).collect()
    }

    /// h of every item before the first pass.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
    pub fn start(&self, items: usize) -> Vec<f64> {
        vec![self.tau * (items as f64).ln(); items]
    }

    /// g of a query: what makes the probabilities of its row sum to one n-th of `queries`.
    ///
    /// # Shapes
    /// - `scores`, `h`: of all items
    /// - `scratch`: what is kept between calls, so that nothing is allocated for each
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
    pub fn query(&self, scores: &[f32], h: &[f64], queries: usize, scratch: &mut Vec<f64>) -> f64 {
        let (largest, sum) = self.exponentials(scores, h, scratch);
        self.tau * (largest + sum.ln() + (queries as f64).ln())
    }

    /// Leaves `exp((s − h)/τ − largest)` in `scratch`; the largest exponent, and the sum.
    fn exponentials(&self, scores: &[f32], h: &[f64], scratch: &mut Vec<f64>) -> (f64, f64) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
            #[expect(
                unsafe_code,
                reason = "vector instructions of the processor, which was asked whether it has them"
            )]
            // SAFETY: the features were asked for.
            return unsafe { wide(1.0 / self.tau, scores, h, scratch) };
        }
        narrow(1.0 / self.tau, scores, h, scratch)
    }
}

/// [`narrow`] on wider vectors: the same operations in the same order, so the same bits.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn wide(beta: f64, scores: &[f32], h: &[f64], scratch: &mut Vec<f64>) -> (f64, f64) {
    narrow(beta, scores, h, scratch)
}

/// Inlined into [`wide`], to be compiled twice.
#[inline(always)]
fn narrow(beta: f64, scores: &[f32], h: &[f64], scratch: &mut Vec<f64>) -> (f64, f64) {
    const LANES: usize = 8;
    scratch.clear();
    scratch.extend(scores.iter().zip(h).map(|(&score, h)| (f64::from(score) - h) * beta));
    let mut most = [f64::NEG_INFINITY; LANES];
    let (blocks, rest) = scratch.as_chunks::<LANES>();
    for block in blocks {
        most.iter_mut().zip(block).for_each(|(most, &x)| *most = if x > *most { x } else { *most });
    }
    let largest = most.iter().chain(rest).copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sums = [0.0; LANES];
    let (blocks, rest) = scratch.as_chunks_mut::<LANES>();
    for block in blocks {
        for (x, sum) in block.iter_mut().zip(&mut sums) {
            *x = exp(*x - largest);
            *sum += *x;
        }
    }
    let mut sum: f64 = sums.iter().sum();
    for x in rest {
        *x = exp(*x - largest);
        sum += *x;
    }
    (largest, sum)
}

/// What one iteration collects: of every item the sum of its probabilities over the queries seen so far.
///
/// Threads have a pass each and [`Pass::merge`] them in an order of their own, so that no bit depends on who came first.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    sums: Vec<f64>,
    scratch: Vec<f64>,
    queries: usize,
}

impl Pass {
    /// A pass that has seen nothing.
    #[must_use]
    pub fn new(items: usize) -> Self {
        Self { sums: vec![0.0; items], scratch: Vec::with_capacity(items), queries: 0 }
    }

    /// One query more, by its scores with all items; `h` is that of the beginning of the iteration.
    pub fn add(&mut self, settings: &Sinkhorn, scores: &[f32], h: &[f64]) {
        let (_, sum) = settings.exponentials(scores, h, &mut self.scratch);
        let share = 1.0 / sum;
        for (sum, x) in self.sums.iter_mut().zip(&self.scratch) {
            *sum += x * share;
        }
        self.queries += 1;
    }

    /// The queries of another pass of the same iteration.
    pub fn merge(&mut self, other: &Self) {
        self.sums.iter_mut().zip(&other.sums).for_each(|(sum, other)| *sum += other);
        self.queries += other.queries;
    }

    /// h after the iteration, from what it was before.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
    pub fn finish(&self, settings: &Sinkhorn, h: &[f64]) -> Vec<f64> {
        let scale = h.len() as f64 / self.queries as f64;
        h.iter().zip(&self.sums).map(|(h, sum)| h + settings.tau * (sum * scale).ln()).collect()
    }
}

/// The definition: h of the items and g of the queries; g is the one that the last step for the items began with.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
pub fn sinkhorn(scores: &Matrix, settings: &Sinkhorn) -> (Vec<f64>, Vec<f64>) {
    let (rows, columns) = ((scores.queries as f64).ln(), (scores.items as f64).ln());
    let Sinkhorn { tau, iterations } = *settings;
    let (mut h, mut g) = (settings.start(scores.items), vec![0.0; scores.queries]);
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
