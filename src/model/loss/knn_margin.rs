//! kNN-margin: the k hardest negatives count (Liu, Ye, "A Strong and Robust Baseline for Text-Image Matching",
//! ACL-SRW 2019).
//!
//! Σᵢ Σ_{j∈K(i)} \[α + Sᵢⱼ − Sᵢᵢ\]₊ + Σⱼ Σ_{i∈K(j)} \[α + Sᵢⱼ − Sⱼⱼ\]₊ with α = `margin`, where `K` holds the `k` negatives
//! with the highest scores, or all where there are fewer. With `k` = 1 it is MAX, with `k` ≥ n − 1 SUM.

use az::SaturatingAs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use super::function::{Batch, BatchSpec, LossFunction, Problems, equal_hinges, not_a_margin, not_neighbours};
use super::negatives::{hinge, nearest};

/// The k hardest negatives of the batch count (Liu, Ye, 2019). The sum over the batch.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct KnnMargin {
    /// Margin α.
    pub margin: f64,
    /// Negatives of each image and caption that count. The paper tries 3, 5 and 10.
    pub k: usize,
}

impl Default for KnnMargin {
    fn default() -> Self {
        Self { margin: 0.2, k: 3 }
    }
}

impl LossFunction for KnnMargin {
    fn value(&self, batch: &Batch<'_>) -> Tensor {
        let (pairs, k) = (&batch.negatives.pairs, self.k.saturating_as());
        let captions = nearest(batch.scores, pairs, k);
        let images = nearest(&batch.scores.tr(), &pairs.tr(), k).tr();
        hinge(batch.scores, [&captions, &images], self.margin)
    }

    fn problems(&self, BatchSpec { pairs, .. }: BatchSpec) -> Problems {
        not_a_margin("margin", self.margin).into_iter().chain(not_neighbours(self.k, pairs)).collect()
    }

    fn value_if_equal(&self, pairs: usize) -> Option<f64> {
        Some(equal_hinges(self.margin, pairs, self.k))
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
        let (value, gradient) = evaluate(&KnnMargin { margin: 0.2, k: 2 }, &scores);
        assert!((value - 0.3).abs() < 1e-15, "{value}");
        let mut wanted = [0.0; 16];
        (wanted[0], wanted[1], wanted[3], wanted[4]) = (-3.0, 1.0, 1.0, 1.0);
        assert_eq!(gradient, wanted);
    }
}
