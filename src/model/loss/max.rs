//! MAX, the triplet loss with the hardest negative of the batch (Faghri, Fleet, Kiros, Fidler, "VSE++", BMVC 2018).
//!
//! Σᵢ max_{j≠i} \[α + Sᵢⱼ − Sᵢᵢ\]₊ + Σⱼ max_{i≠j} \[α + Sᵢⱼ − Sⱼⱼ\]₊ with α = `margin`. If all scores are equal, the
//! value is 2·n·α.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use super::function::{BatchSpec, LossFunction, LossInput, check_margin, collapsed_hinges};
use super::knn_margin::KnnMarginLoss;
use crate::model::setting_problems::{MARGINS, SettingProblems, check_plausible};

/// Triplet loss with the hardest negative of the batch (VSE++, "MAX"). Summed over the batch.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct MaxLoss {
    /// Margin α.
    pub margin: f64,
}

impl Default for MaxLoss {
    fn default() -> Self {
        Self { margin: 0.2 }
    }
}

impl LossFunction for MaxLoss {
    fn value(&self, batch: &LossInput<'_>) -> Tensor {
        KnnMarginLoss { margin: self.margin, k: 1 }.value(batch)
    }

    fn problems(&self, _: BatchSpec) -> SettingProblems {
        check_margin("margin", self.margin).into_iter().collect()
    }

    fn implausible(&self) -> SettingProblems {
        check_plausible("margin", self.margin, MARGINS).into_iter().collect()
    }

    fn collapse_value(&self, pairs: usize) -> Option<f64> {
        Some(collapsed_hinges(self.margin, pairs, 1))
    }

    fn is_triplet_loss(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::evaluate;
    use super::*;

    /// By hand, with α = 0.2. Rows: 0.2+0.55−0.6 = 0.15 (caption 2), 0.2+0.3−0.4 = 0.1 (caption 0),
    /// 0.2+0.1−0.9 < 0. Columns: 0.2+0.3−0.6 < 0, 0.2+0.5−0.4 = 0.3 (image 0), 0.2+0.55−0.9 < 0.
    #[test]
    fn the_hardest_negative_of_each_row_and_column_counts() {
        let scores = [0.6, 0.5, 0.55, 0.3, 0.4, 0.1, 0.0, 0.1, 0.9];
        let (value, gradient) = evaluate(&MaxLoss { margin: 0.2 }, &scores);
        assert!((value - 0.55).abs() < 1e-15);
        assert_eq!(gradient, [-1.0, 1.0, 1.0, 1.0, -2.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn equal_scores_cost_two_margins_per_pair_and_pick_the_first_negative() {
        let (value, gradient) = evaluate(&MaxLoss { margin: 0.25 }, &[0.5; 9]);
        assert_eq!(value, 2.0 * 3.0 * 0.25);
        assert_eq!(gradient, [-2.0, 2.0, 1.0, 2.0, -2.0, 0.0, 1.0, 0.0, -2.0]);
        assert_eq!(evaluate(&MaxLoss { margin: 0.2 }, &[0.9]), (0.0, vec![0.0]));
    }
}
