//! Value of kNN-margin, see [`spec::loss::knn_margin`](pairloom_spec::loss::knn_margin).

use az::SaturatingAs;
use tch::Tensor;

use super::objective::{LossFunction, LossInput, constant_margin_hinges, top_k_mask};

use pairloom_spec::loss::KnnMarginLoss;

impl LossFunction for KnnMarginLoss {
    fn value(&self, batch: &LossInput<'_>) -> Tensor {
        let (pairs, k) = (&batch.negatives.is_negative, self.k.saturating_as());
        let captions = top_k_mask(batch.scores, pairs, k);
        let images = top_k_mask(&batch.scores.tr(), &pairs.tr(), k).tr();
        constant_margin_hinges(batch.scores, [&captions, &images], self.margin)
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
        let mut expected = [0.0; 16];
        (expected[0], expected[1], expected[3], expected[4]) = (-3.0, 1.0, 1.0, 1.0);
        assert_eq!(gradient, expected);
    }
}
