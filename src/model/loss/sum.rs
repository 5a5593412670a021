//! Value of SUM, see [`spec::loss::sum`](pairloom_spec::loss::sum).

use tch::Tensor;

use super::objective::{LossFunction, LossInput, constant_margin_hinges};

use pairloom_spec::loss::SumLoss;

impl LossFunction for SumLoss {
    fn value(&self, batch: &LossInput<'_>) -> Tensor {
        constant_margin_hinges(batch.scores, [&batch.negatives.is_negative, &batch.negatives.is_negative], self.margin)
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
