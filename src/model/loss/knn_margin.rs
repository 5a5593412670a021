//! kNN-margin, the triplet loss with the k hardest negatives (Liu, Ye, "A Strong and Robust Baseline for Text-Image
//! Matching", ACL-SRW 2019).
//!
//! Σᵢ Σ_{j∈K(i)} \[α + Sᵢⱼ − Sᵢᵢ\]₊ + Σⱼ Σ_{i∈K(j)} \[α + Sᵢⱼ − Sⱼⱼ\]₊ with α = `margin`, where `K` contains the `k`
//! negatives with the highest scores, or all if there are fewer. `k` = 1 is MAX, `k` ≥ n − 1 is SUM.

use az::SaturatingAs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use super::function::{BatchSpec, LossFunction, LossInput, check_margin, check_neighbours, collapsed_hinges};
use super::negatives::{constant_margin_hinges, top_k_mask};
use crate::model::setting_problems::{MARGINS, SettingProblems, check_plausible};

/// Triplet loss with the k hardest negatives of the batch (Liu, Ye, 2019). Summed over the batch.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct KnnMarginLoss {
    /// Margin α.
    pub margin: f64,
    /// Number of negatives of each image and caption that count. The paper tries 3, 5 and 10.
    pub k: usize,
}

impl Default for KnnMarginLoss {
    fn default() -> Self {
        Self { margin: 0.2, k: 3 }
    }
}

impl LossFunction for KnnMarginLoss {
    fn value(&self, batch: &LossInput<'_>) -> Tensor {
        let (pairs, k) = (&batch.negatives.is_negative, self.k.saturating_as());
        let captions = top_k_mask(batch.scores, pairs, k);
        let images = top_k_mask(&batch.scores.tr(), &pairs.tr(), k).tr();
        constant_margin_hinges(batch.scores, [&captions, &images], self.margin)
    }

    fn problems(&self, BatchSpec { pairs, .. }: BatchSpec) -> SettingProblems {
        check_margin("margin", self.margin).into_iter().chain(check_neighbours(self.k, pairs)).collect()
    }

    fn implausible(&self) -> SettingProblems {
        check_plausible("margin", self.margin, MARGINS).into_iter().collect()
    }

    fn collapse_value(&self, pairs: usize) -> Option<f64> {
        Some(collapsed_hinges(self.margin, pairs, self.k))
    }

    fn is_triplet_loss(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::evaluate;
    use super::*;

    /// By hand, with α = 0.2 and two neighbours of three. Row 0: captions 1 and 3, 0.2+0.5−0.6 = 0.1 and
    /// 0.2+0.55−0.6 = 0.15. All other rows and the columns 1 to 3 are far away. Column 0 has images 1 and 3:
    /// 0.2+0.45−0.6 = 0.05 and 0.2+0.3−0.6 < 0.
    #[test]
    fn the_two_hardest_of_three_negatives_count() {
        #[rustfmt::skip]
        let scores = [
            0.6, 0.5, 0.45, 0.55,
            0.45, 0.9, 0.0, 0.0,
            0.2, 0.0, 0.9, 0.0,
            0.3, 0.0, 0.0, 0.9,
        ];
        let (value, gradient) = evaluate(&KnnMarginLoss { margin: 0.2, k: 2 }, &scores);
        assert!((value - 0.3).abs() < 1e-15, "{value}");
        let mut wanted = [0.0; 16];
        (wanted[0], wanted[1], wanted[3], wanted[4]) = (-3.0, 1.0, 1.0, 1.0);
        assert_eq!(gradient, wanted);
    }
}
