//! Local scaling: the first version of HAL (Liu, Ye, "Improved Text-Image Matching by Mitigating Visual Semantic Hubs",
//! submitted to EMNLP 2019, equation 4).
//!
//! SUM or MAX on S'ᵢⱼ = Sᵢⱼ·exp(mean of Sᵢₓ over x ∈ K₁ + mean of Sₓⱼ over x ∈ K₂): K₁ holds the `k` captions nearest to
//! image i but for j, K₂ the `k` images nearest to caption j but for i.
//!
//! The neighbours of a negative may be matching pairs: it is a hub if it is near to its own partner and to others. Other
//! captions of the same image are nobody's neighbours. Of fewer than `k` neighbours all count; the mean of none is 0. The
//! paper prints s(ī, t̄) in the first sum, where only s(i, t̄) makes sense of its text.

use az::SaturatingAs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::function::{Batch, BatchSpec, LossFunction, Problems, equal_hinges, not_a_margin, not_neighbours};
use super::max::Max;
use super::negatives::nearest;
use super::sum::Sum;

/// Scores grow with the density around image and caption in the batch, and SUM or MAX sees them (the first version of HAL,
/// Liu, Ye, 2019). The sum over the batch.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct LocalScaling {
    /// Margin α.
    pub margin: f64,
    /// Neighbours whose mean score is the density.
    pub k: usize,
    /// The objective that sees the scaled scores.
    pub over: Over,
    /// Treatment of the density in the gradient: a constant, or differentiated.
    pub exponent: Exponent,
}

/// The objective that sees scaled scores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// SUM, what the paper calls HAL.
    #[default]
    Sum,
    /// MAX, what the paper calls MAX+HAL.
    Max,
}

/// Treatment of a scale in the gradient, which its paper does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exponent {
    /// The scale is a constant of the step, as the weights of HAL are.
    #[default]
    Detached,
    /// The scale is a function of the scores.
    Differentiated,
}

impl Default for LocalScaling {
    fn default() -> Self {
        Self { margin: 0.2, k: 3, over: Over::default(), exponent: Exponent::default() }
    }
}

impl LossFunction for LocalScaling {
    fn value(&self, batch: &Batch<'_>) -> Tensor {
        let scores = batch.scores;
        let source = if self.exponent == Exponent::Detached { scores.detach() } else { scores.shallow_clone() };
        let (candidates, k) = (batch.negatives.with_matching(), self.k.saturating_as());
        let captions = neighbours(&source, &candidates, k);
        let images = neighbours(&source.tr(), &candidates.tr(), k).tr();
        let scaled = scores * (captions + images).exp();
        let scaled = Batch { scores: &scaled, ..*batch };
        match self.over {
            Over::Sum => Sum { margin: self.margin }.value(&scaled),
            Over::Max => Max { margin: self.margin }.value(&scaled),
        }
    }

    fn problems(&self, BatchSpec { pairs, .. }: BatchSpec) -> Problems {
        not_a_margin("margin", self.margin).into_iter().chain(not_neighbours(self.k, pairs)).collect()
    }

    fn value_if_equal(&self, pairs: usize) -> Option<f64> {
        Some(equal_hinges(self.margin, pairs, if self.over == Over::Sum { pairs } else { 1 }))
    }

    fn is_triplet_loss(&self) -> bool {
        true
    }
}

/// For each place of a row the mean of the `k` highest scores in the rest of the row, among `candidates`.
fn neighbours(scores: &Tensor, candidates: &Tensor, k: i64) -> Tensor {
    let total = |chosen: &Tensor| (scores * chosen).sum_dim_intlist(1, true, scores.kind());
    let count = |chosen: &Tensor| chosen.sum_dim_intlist(1, true, Kind::Int64);
    // A place that is one of the best k leaves the best k + 1 without itself to count.
    let (best, one_more) = (nearest(scores, candidates, k), nearest(scores, candidates, k.saturating_add(1)));
    let without = (total(&one_more) - scores) / (count(&one_more) - 1).clamp_min(1);
    let alone = count(&one_more).le(1);
    let without = without.masked_fill(&alone, 0.0);
    (total(&best) / count(&best).clamp_min(1)).where_self(&best.logical_not(), &without)
}

#[cfg(test)]
mod tests {
    use super::super::testing::evaluate;
    use super::*;

    /// Two pairs, one neighbour: the scale of a place is e to the sum of the two places beside it.
    /// S' = [0.5·e⁰·⁵, 0.2·e⁰·⁹, 0.3·e⁰·⁹, 0.4·e⁰·⁵] with S = [0.5, 0.2, 0.3, 0.4].
    #[test]
    fn scores_are_scaled_by_their_neighbours() {
        let scores = [0.5, 0.2, 0.3, 0.4];
        let (near, far) = (0.5f64.exp(), 0.9f64.exp());
        let hinge = |negative: f64, matching: f64| (0.5 + negative - matching).max(0.0);
        let [a, b, c, d] = [0.5 * near, 0.2 * far, 0.3 * far, 0.4 * near];
        let wanted = hinge(b, a) + hinge(c, d) + hinge(c, a) + hinge(b, d);
        let loss = LocalScaling { margin: 0.5, k: 1, ..LocalScaling::default() };
        let detached = evaluate(&loss, &scores);
        assert!((detached.0 - wanted).abs() < 1e-14, "{} and {wanted}", detached.0);
        let slopes = [-2.0 * near, 2.0 * far, 2.0 * far, -2.0 * near];
        assert!(detached.1.iter().zip(slopes).all(|(a, b)| (a - b).abs() < 1e-12));

        // Beside the diagonal: d L / d S₀₀ gains what the scales of S₀₁ and S₁₀ pass on, 2·S'₀₁ + 2·S'₁₀.
        let through = evaluate(&LocalScaling { exponent: Exponent::Differentiated, ..loss }, &scores);
        assert_eq!(through.0, detached.0);
        assert!((through.1[0] - (-2.0 * near + 2.0 * b + 2.0 * c)).abs() < 1e-12);
    }
}
