//! MAX, the triplet loss with the hardest negative of the batch (Faghri, Fleet, Kiros, Fidler, "VSE++", BMVC 2018).
//!
//! Σᵢ max_{j≠i} \[α + Sᵢⱼ − Sᵢᵢ\]₊ + Σⱼ max_{i≠j} \[α + Sᵢⱼ − Sⱼⱼ\]₊ with α = `margin`. If all scores are equal, the
//! value is 2·n·α.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchSpec, LossSettings, check_margin, collapsed_hinges};
use crate::setting_problems::MARGINS;
use pairloom_stage::Problem;

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

impl LossSettings for MaxLoss {
    fn problems(&self, _: BatchSpec) -> Vec<Problem> {
        check_margin("margin", self.margin, MARGINS).into_iter().collect()
    }

    fn collapse_value(&self, pairs: usize) -> Option<f64> {
        Some(collapsed_hinges(self.margin, pairs, 1))
    }

    fn is_triplet_loss(&self) -> bool {
        true
    }
}
