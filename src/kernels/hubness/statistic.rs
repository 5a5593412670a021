//! Statistics of the scores of an item with all queries, or of a query with all items.

use serde::{Deserialize, Serialize};

/// Statistic of a list of scores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// `ln Σ exp(β·s)`: the normaliser of a softmax.
    LogSumExp {
        /// Inverse temperature, β.
        beta: f64,
    },
    /// The mean of the `k` largest scores; of all scores if there are fewer.
    MeanOfLargest {
        /// Number of scores.
        k: usize,
    },
    /// The `k`-th largest score, from 1; the smallest score if there are fewer.
    KthLargest {
        /// Position of the score, from 1.
        k: usize,
    },
    /// The mean.
    Mean,
    /// The population standard deviation: divided by n.
    StandardDeviation,
}

impl Statistic {
    /// Computes the statistic of `scores` in f64: the definition that streamed statistics are tested against.
    ///
    /// # Edge cases
    /// For no scores [`Statistic::LogSumExp`] is −∞ and the others are NaN; methods refuse empty pools earlier. The
    /// `k`-th largest score is NaN for `k` = 0.
    ///
    /// # Cost
    /// `O(n)` time, `O(n log n)` for the statistics of the largest scores; a copy of the scores.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
    pub fn compute(&self, scores: impl Iterator<Item = f32>) -> f64 {
        let mut scores: Vec<f64> = scores.map(f64::from).collect();
        let mean = |scores: &[f64]| scores.iter().sum::<f64>() / scores.len() as f64;
        match *self {
            Self::LogSumExp { beta } => log_sum_exp(scores.iter().map(|score| beta * score)),
            Self::MeanOfLargest { k } => {
                scores.sort_unstable_by(|a, b| b.total_cmp(a));
                mean(&scores[..k.min(scores.len())])
            }
            Self::KthLargest { k } => {
                scores.sort_unstable_by(|a, b| b.total_cmp(a));
                scores[..k.min(scores.len())].last().copied().unwrap_or(f64::NAN)
            }
            Self::Mean => mean(&scores),
            Self::StandardDeviation => {
                let centre = mean(&scores);
                let squares: Vec<f64> = scores.iter().map(|score| (score - centre).powi(2)).collect();
                mean(&squares).sqrt()
            }
        }
    }
}

/// `ln Σ exp(x)`, relative to the largest x, so that nothing overflows; −∞ for no values.
pub(super) fn log_sum_exp(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = values.clone().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + values.map(|value| (value - largest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_four_scores() {
        let of = |statistic: Statistic, scores: &[f32]| statistic.compute(scores.iter().copied());
        let scores = [0.5, 2.0, -1.0, 1.0];
        let wanted = (0.25f64.exp() + 1f64.exp() + (-0.5f64).exp() + 0.5f64.exp()).ln();
        assert!((of(Statistic::LogSumExp { beta: 0.5 }, &scores) - wanted).abs() < 1e-15);
        assert_eq!(of(Statistic::MeanOfLargest { k: 2 }, &scores), 1.5);
        assert_eq!(of(Statistic::MeanOfLargest { k: 9 }, &scores), 0.625);
        assert_eq!([1, 3, 4, 9].map(|k| of(Statistic::KthLargest { k }, &scores)), [2.0, 0.5, -1.0, -1.0]);
        assert_eq!(of(Statistic::Mean, &scores), 0.625);
        // Deviations −1/8, 11/8, −13/8, 3/8: the sum of their squares is 300/64, the mean 75/64.
        assert!((of(Statistic::StandardDeviation, &scores) - (75f64 / 64.0).sqrt()).abs() < 1e-15);
        assert_eq!(of(Statistic::StandardDeviation, &[0.1; 3]), 0.0);
        // e²⁰⁰⁰ overflows f64, but its logarithm does not.
        assert!((of(Statistic::LogSumExp { beta: 1000.0 }, &[2.0, 2.0]) - (2000.0 + 2f64.ln())).abs() < 1e-12);
        assert_eq!(of(Statistic::LogSumExp { beta: 1.0 }, &[]), f64::NEG_INFINITY);
        assert!(of(Statistic::Mean, &[]).is_nan() && of(Statistic::KthLargest { k: 0 }, &[1.0]).is_nan());
    }
}
