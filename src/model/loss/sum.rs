//! SUM: every negative of the batch counts (Kiros, Salakhutdinov, Zemel, "Unifying Visual-Semantic Embeddings with
//! Multimodal Neural Language Models", 2014).
//!
//! Σᵢ Σ_{j≠i} \[α + Sᵢⱼ − Sᵢᵢ\]₊ + Σⱼ Σ_{i≠j} \[α + Sᵢⱼ − Sⱼⱼ\]₊ with α = `margin`. Where all scores are equal it is
//! 2·n·(n − 1)·α.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use super::function::{Batch, BatchSpec, LossFunction, Problems, equal_hinges, not_a_margin};
use super::negatives::hinge;

/// Every negative of the batch counts (UVS, "SUM"). The sum over the batch.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Sum {
    /// Margin α.
    pub margin: f64,
}

impl Default for Sum {
    fn default() -> Self {
        Self { margin: 0.2 }
    }
}

impl LossFunction for Sum {
    fn value(&self, batch: &Batch<'_>) -> Tensor {
        hinge(batch.scores, [&batch.negatives.pairs, &batch.negatives.pairs], self.margin)
    }

    fn problems(&self, _: BatchSpec) -> Problems {
        not_a_margin("margin", self.margin).into_iter().collect()
    }

    fn value_if_equal(&self, pairs: usize) -> Option<f64> {
        Some(equal_hinges(self.margin, pairs, pairs))
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
        let (value, gradient) = evaluate(&Sum { margin: 0.2 }, &SCORES);
        assert!((value - 0.5).abs() < 1e-15);
        assert_eq!(gradient, [-1.0, 2.0, 1.0, -2.0]);
    }

    /// The same, but caption 1 is another one of image 0: row 1 and nothing else is left.
    #[test]
    fn masked_pairs_do_not_count() {
        let (value, gradient) = evaluate_masked(&Sum { margin: 0.2 }, &SCORES, &[false, true, false, false]);
        assert!((value - 0.1).abs() < 1e-15);
        assert_eq!(gradient, [0.0, 0.0, 1.0, -1.0]);
    }
}
