//! Objectives of a training as plain arithmetic: the references that the tensor versions are tested against.
//!
//! All take the scores of a batch, `n` × `n` row-major, `scores[i·n + j]` of image `i` and caption `j`, with the matching
//! pairs on the diagonal; give the value and its gradient in the scores, in the same layout.

pub mod sum;
pub mod max;

pub use max::max;
pub use sum::sum;

/// The value of an objective and its gradient in the scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    /// Value, summed over the batch.
    pub value: f64,
    /// Its derivative in every score, `n` × `n` row-major.
    pub gradient: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::sample::Sample;

    #[test]
    fn gradients_are_finite_differences() {
        let n = 6;
        let mut sample = Sample::new(3, &[]);
        let scores: Vec<f64> = (0..n * n).map(|_| 2.0 * sample.unit() - 1.0).collect();
        for loss in [sum, max] {
            let exact = loss(&scores, n, 0.2).gradient;
            for (i, exact) in exact.into_iter().enumerate() {
                let moved = |by: f64| {
                    let mut scores = scores.clone();
                    scores[i] += by;
                    loss(&scores, n, 0.2).value
                };
                let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                assert!((difference - exact).abs() < 1e-6, "score {i}: {difference} and {exact}");
            }
        }
    }
}
