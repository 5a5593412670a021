//! Loss with local scaling, the first version of HAL (Liu, Ye, "Improved Text-Image Matching by Mitigating Visual
//! Semantic Hubs", submitted to EMNLP 2019, equation 4).
//!
//! SUM or MAX on S'ᵢⱼ = Sᵢⱼ·exp(mean of Sᵢₓ over x ∈ K₁ + mean of Sₓⱼ over x ∈ K₂), where K₁ contains the `k` captions
//! other than j that are nearest to image i, and K₂ the `k` images other than i that are nearest to caption j.
//!
//! Matching pairs may be neighbours: an item is a hub if it is near to its own match and to others. Masked captions of
//! the same image are not neighbours. If there are fewer than `k` neighbours all count; the mean of none is 0. The
//! paper prints s(ī, t̄) in the first sum, but only s(i, t̄) agrees with its text.

use az::SaturatingAs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::function::{BatchSpec, LossFunction, LossInput, check_margin, check_neighbours, collapsed_hinges};
use super::max::MaxLoss;
use super::negatives::top_k_mask;
use super::sum::SumLoss;
use crate::model::setting_problems::{MARGINS, SettingProblems, check_plausible};

/// SUM or MAX on scores that grow with the density around the image and the caption in the batch (first version of HAL:
/// Liu, Ye, 2019). Summed over the batch.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct LocalScalingLoss {
    /// Margin α.
    pub margin: f64,
    /// Number of neighbours whose mean score is the density.
    pub k: usize,
    /// Loss on the scaled scores.
    pub over: BaseLoss,
    /// Treatment of the density in the gradient: a constant, or differentiated.
    pub density: DensityGradient,
}

/// Loss on the scaled scores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BaseLoss {
    /// SUM, called HAL in the paper.
    #[default]
    Sum,
    /// MAX, called MAX+HAL in the paper.
    Max,
}

/// Treatment of the density in the gradient, which the paper does not specify.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DensityGradient {
    /// The density is a constant, like the weights of HAL.
    #[default]
    Detached,
    /// The density is differentiated as a function of the scores.
    Differentiated,
}

impl Default for LocalScalingLoss {
    fn default() -> Self {
        Self { margin: 0.2, k: 3, over: BaseLoss::default(), density: DensityGradient::default() }
    }
}

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

    fn problems(&self, BatchSpec { pairs, sums, .. }: BatchSpec) -> SettingProblems {
        let sums = sums.then(|| {
            let message = "scores are sums over words or regions, and this loss takes the exponential of scores; wanted \
                           another `aggregation` of the model, such as `mean`";
            ("over".to_owned(), message.to_owned())
        });
        check_margin("margin", self.margin).into_iter().chain(check_neighbours(self.k, pairs)).chain(sums).collect()
    }

    fn implausible(&self) -> SettingProblems {
        check_plausible("margin", self.margin, MARGINS).into_iter().collect()
    }

    fn collapse_value(&self, pairs: usize) -> Option<f64> {
        Some(collapsed_hinges(self.margin, pairs, if self.over == BaseLoss::Sum { pairs } else { 1 }))
    }

    fn is_triplet_loss(&self) -> bool {
        true
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
        let wanted = hinge(b, a) + hinge(c, d) + hinge(c, a) + hinge(b, d);
        let loss = LocalScalingLoss { margin: 0.5, k: 1, ..LocalScalingLoss::default() };
        let detached = evaluate(&loss, &scores);
        assert!((detached.0 - wanted).abs() < 1e-14, "{} and {wanted}", detached.0);
        let slopes = [-2.0 * near, 2.0 * far, 2.0 * far, -2.0 * near];
        assert!(detached.1.iter().zip(slopes).all(|(a, b)| (a - b).abs() < 1e-12));

        // ∂L/∂S₀₀ gains 2·S'₀₁ + 2·S'₁₀ through the scales of S₀₁ and S₁₀.
        let through = evaluate(&LocalScalingLoss { density: DensityGradient::Differentiated, ..loss }, &scores);
        assert_eq!(through.0, detached.0);
        assert!((through.1[0] - (-2.0 * near + 2.0 * b + 2.0 * c)).abs() < 1e-12);
    }
}
