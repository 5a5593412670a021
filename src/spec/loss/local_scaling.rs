//! Loss with local scaling, the first version of HAL (Liu, Ye, "Improved Text-Image Matching by Mitigating Visual
//! Semantic Hubs", submitted to EMNLP 2019, equation 4).
//!
//! SUM or MAX on S'ᵢⱼ = Sᵢⱼ·exp(mean of Sᵢₓ over x ∈ K₁ + mean of Sₓⱼ over x ∈ K₂), where K₁ contains the `k` captions
//! other than j that are nearest to image i, and K₂ the `k` images other than i that are nearest to caption j.
//!
//! Matching pairs may be neighbours: an item is a hub if it is near to its own match and to others. Masked captions of
//! the same image are not neighbours. If there are fewer than `k` neighbours all count; the mean of none is 0. The
//! paper prints s(ī, t̄) in the first sum, but only s(i, t̄) agrees with its text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchSpec, LossSettings, check_margin, check_neighbours, collapsed_hinges};
use crate::setting_problems::MARGINS;
use pairloom_stage::Problem;

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

impl LossSettings for LocalScalingLoss {
    fn problems(&self, BatchSpec { pairs, sums, .. }: BatchSpec) -> Vec<Problem> {
        let sums = sums.then(|| {
            let message = "scores are sums over words or regions, and this loss takes the exponential of scores; expected \
                           another `aggregation` of the model, such as `mean`";
            Problem::new("over", message)
        });
        check_margin("margin", self.margin, MARGINS)
            .into_iter()
            .chain(check_neighbours(self.k, pairs))
            .chain(sums)
            .collect()
    }

    fn collapse_value(&self, pairs: usize) -> Option<f64> {
        Some(collapsed_hinges(self.margin, pairs, if self.over == BaseLoss::Sum { pairs } else { 1 }))
    }

    fn is_triplet_loss(&self) -> bool {
        true
    }
}
