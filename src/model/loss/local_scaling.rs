//! Value of Loss with local scaling, see [`spec::loss::local_scaling`](pairloom_spec::loss::local_scaling).

use az::SaturatingAs;
use tch::{Kind, Tensor};

use super::objective::{LossFunction, LossInput, top_k_mask};
use pairloom_spec::loss::{MaxLoss, SumLoss};

use pairloom_spec::loss::{BaseLoss, DensityGradient, LocalScalingLoss};

impl LossFunction for LocalScalingLoss {
    fn value(&self, batch: &LossInput<'_>) -> Tensor {
        let scores = batch.scores;
        let source = if self.density == DensityGradient::Detached { scores.detach() } else { scores.shallow_clone() };
        let (candidates, k) = (batch.negatives.unmasked(), self.k.saturating_as());
        let captions = neighbour_means(&source, &candidates, k);
        let images = neighbour_means(&source.tr(), &candidates.tr(), k).tr();
        let scaled = scores * (captions + images).exp();
        let scaled = LossInput { scores: &scaled, ..*batch };
        match self.over {
            BaseLoss::Sum => SumLoss { margin: self.margin }.value(&scaled),
            BaseLoss::Max => MaxLoss { margin: self.margin }.value(&scaled),
        }
    }
}

/// Mean, for each place of a row, of the `k` highest scores among the other `candidates` of the row.
fn neighbour_means(scores: &Tensor, candidates: &Tensor, k: i64) -> Tensor {
    let total = |chosen: &Tensor| (scores * chosen).sum_dim_intlist(1, true, scores.kind());
    let count = |chosen: &Tensor| chosen.sum_dim_intlist(1, true, Kind::Int64);
    // For a place among the best k, the other places of the best k + 1 count.
    let (best, one_more) = (top_k_mask(scores, candidates, k), top_k_mask(scores, candidates, k.saturating_add(1)));
    let without = (total(&one_more) - scores) / (count(&one_more) - 1).clamp_min(1);
    let alone = count(&one_more).le(1);
    let without = without.masked_fill(&alone, 0.0);
    (total(&best) / count(&best).clamp_min(1)).where_self(&best.logical_not(), &without)
}

#[cfg(test)]
mod tests {
    use super::super::testing::evaluate;
    use super::*;

    /// Two pairs, one neighbour: the exponent of a place is the sum of the other score of its row and that of its
    /// column. S' = [0.5·e⁰·⁵, 0.2·e⁰·⁹, 0.3·e⁰·⁹, 0.4·e⁰·⁵] with S = [0.5, 0.2, 0.3, 0.4].
    #[test]
    fn scores_are_scaled_by_their_neighbours() {
        let scores = [0.5, 0.2, 0.3, 0.4];
        let (near, far) = (0.5f64.exp(), 0.9f64.exp());
        let hinge = |negative: f64, matching: f64| (0.5 + negative - matching).max(0.0);
        let [a, b, c, d] = [0.5 * near, 0.2 * far, 0.3 * far, 0.4 * near];
        let expected = hinge(b, a) + hinge(c, d) + hinge(c, a) + hinge(b, d);
        let loss = LocalScalingLoss { margin: 0.5, k: 1, ..LocalScalingLoss::default() };
        let detached = evaluate(&loss, &scores);
        assert!((detached.0 - expected).abs() < 1e-14, "{} and {expected}", detached.0);
        let slopes = [-2.0 * near, 2.0 * far, 2.0 * far, -2.0 * near];
        assert!(detached.1.iter().zip(slopes).all(|(a, b)| (a - b).abs() < 1e-12));

        // ∂L/∂S₀₀ gains 2·S'₀₁ + 2·S'₁₀ through the scales of S₀₁ and S₁₀.
        let through = evaluate(&LocalScalingLoss { density: DensityGradient::Differentiated, ..loss }, &scores);
        assert_eq!(through.0, detached.0);
        assert!((through.1[0] - (-2.0 * near + 2.0 * b + 2.0 * c)).abs() < 1e-12);
    }
}
