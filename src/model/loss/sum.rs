//! SUM, the triplet loss in which every negative of the batch counts (Kiros, Salakhutdinov, Zemel, "Unifying
//! Visual-Semantic Embeddings with Multimodal Neural Language Models", 2014).
//!
//! Σᵢ Σ_{j≠i} \[α + Sᵢⱼ − Sᵢᵢ\]₊ + Σⱼ Σ_{i≠j} \[α + Sᵢⱼ − Sⱼⱼ\]₊ with α = `margin`. If all scores are equal, the value
//! is 2·n·(n − 1)·α.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use super::function::{BatchSpec, LossFunction, LossInput, check_margin, collapsed_hinges};
use super::negatives::constant_margin_hinges;
use crate::model::setting_problems::{MARGINS, SettingProblems, check_plausible};

/// Triplet loss in which every negative of the batch counts (UVS, "SUM"). Summed over the batch.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct SumLoss {
    /// Margin α.
    pub margin: f64,
}

impl Default for SumLoss {
    fn default() -> Self {
        Self { margin: 0.2 }
    }
}

impl LossFunction for SumLoss {
    fn value(&self, batch: &LossInput<'_>) -> Tensor {
        constant_margin_hinges(batch.scores, [&batch.negatives.is_negative, &batch.negatives.is_negative], self.margin)
    }

    fn problems(&self, _: BatchSpec) -> SettingProblems {
        check_margin("margin", self.margin).into_iter().collect()
    }

    fn implausible(&self) -> SettingProblems {
        check_plausible("margin", self.margin, MARGINS).into_iter().collect()
    }

    fn collapse_value(&self, pairs: usize) -> Option<f64> {
        Some(collapsed_hinges(self.margin, pairs, pairs))
    }

    fn is_triplet_loss(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{evaluate, evaluate_masked};
    use super::*;

    const SCORES: [f64; 4] = [0.6, 0.5, 0.3, 0.4];

    /// By hand, with α = 0.2: row 0 has 0.2+0.5−0.6 = 0.1; row 1 has 0.2+0.3−0.4 = 0.1; column 0 has
    /// 0.2+0.3−0.6 < 0; column 1 has 0.2+0.5−0.4 = 0.3.
    #[test]
    fn every_violated_margin_of_rows_and_columns_counts() {
        let (value, gradient) = evaluate(&SumLoss { margin: 0.2 }, &SCORES);
        assert!((value - 0.5).abs() < 1e-15);
        assert_eq!(gradient, [-1.0, 2.0, 1.0, -2.0]);
    }

    /// The same scores, but caption 1 is another caption of image 0: only the term of row 1 is left.
    #[test]
    fn masked_pairs_do_not_count() {
        let (value, gradient) = evaluate_masked(&SumLoss { margin: 0.2 }, &SCORES, &[false, true, false, false]);
        assert!((value - 0.1).abs() < 1e-15);
        assert_eq!(gradient, [0.0, 0.0, 1.0, -1.0]);
    }
}
