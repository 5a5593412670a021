//! kNN-margin, the triplet loss with the k hardest negatives (Liu, Ye, "A Strong and Robust Baseline for Text-Image
//! Matching", ACL-SRW 2019).
//!
//! Σᵢ Σ_{j∈K(i)} \[α + Sᵢⱼ − Sᵢᵢ\]₊ + Σⱼ Σ_{i∈K(j)} \[α + Sᵢⱼ − Sⱼⱼ\]₊ with α = `margin`, where `K` contains the `k`
//! negatives with the highest scores, or all if there are fewer. `k` = 1 is MAX, `k` ≥ n − 1 is SUM.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchSpec, LossSettings, check_margin, check_neighbours, collapsed_hinges};
use crate::setting_problems::MARGINS;
use pairloom_stage::Problem;

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

impl LossSettings for KnnMarginLoss {
    fn problems(&self, BatchSpec { pairs, .. }: BatchSpec) -> Vec<Problem> {
        check_margin("margin", self.margin, MARGINS).into_iter().chain(check_neighbours(self.k, pairs)).collect()
    }

    fn collapse_value(&self, pairs: usize) -> Option<f64> {
        Some(collapsed_hinges(self.margin, pairs, self.k))
    }

    fn is_triplet_loss(&self) -> bool {
        true
    }
}
