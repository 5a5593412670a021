//! SUM, the triplet loss in which every negative of the batch counts (Kiros, Salakhutdinov, Zemel, "Unifying
//! Visual-Semantic Embeddings with Multimodal Neural Language Models", 2014).
//!
//! Σᵢ Σ_{j≠i} \[α + Sᵢⱼ − Sᵢᵢ\]₊ + Σⱼ Σ_{i≠j} \[α + Sᵢⱼ − Sⱼⱼ\]₊ with α = `margin`. If all scores are equal, the value
//! is 2·n·(n − 1)·α.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchSpec, LossSettings, check_margin, collapsed_hinges};
use crate::setting_problems::MARGINS;
use pairloom_stage::Problem;

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

impl LossSettings for SumLoss {
    fn problems(&self, _: BatchSpec) -> Vec<Problem> {
        check_margin("margin", self.margin, MARGINS).into_iter().collect()
    }

    fn collapse_value(&self, pairs: usize) -> Option<f64> {
        Some(collapsed_hinges(self.margin, pairs, pairs))
    }

    fn is_triplet_loss(&self) -> bool {
        true
    }
}
