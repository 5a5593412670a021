//! Value of MAX, see [`spec::loss::max`](pairloom_spec::loss::max).

use tch::Tensor;

use super::objective::{LossFunction, LossInput};
use pairloom_spec::loss::{KnnMarginLoss, MaxLoss};

impl LossFunction for MaxLoss {
    fn value(&self, batch: &LossInput<'_>) -> Tensor {
        KnnMarginLoss { margin: self.margin, k: 1 }.value(batch)
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
