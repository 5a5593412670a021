//! Sigmoid loss of `SigLIP`: every pair is a binary question (Zhai, Mustafa, Kolesnikov, Beyer, "Sigmoid Loss for Language
//! Image Pre-Training", ICCV 2023).
//!
//! (1/n) Σᵢ Σⱼ ln(1 + e^{zᵢⱼ·(−t·Sᵢⱼ − b)}) with zᵢⱼ = 1 for matching pairs and −1 for negatives; other captions of the same
//! image are left out where they are masked. Temperature t and bias b are settings, not learned; the paper begins with
//! t = 10 and b = −10.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::function::{Batch, BatchSpec, LossFunction, Problems, not_positive};

/// Cross entropy of each pair of the batch, whether it matches (`SigLIP`: Zhai et al., ICCV 2023). The sum over captions, the
/// mean over images.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Sigmoid {
    /// Factor of scores, t.
    pub temperature: f64,
    /// Bias that is added after it, b. Below 0, because most pairs do not match.
    pub bias: f64,
}

impl Default for Sigmoid {
    fn default() -> Self {
        Self { temperature: 10.0, bias: -10.0 }
    }
}

impl LossFunction for Sigmoid {
    fn value(&self, batch: &Batch<'_>) -> Tensor {
        let logits = batch.scores * self.temperature + self.bias;
        let of_matches = logits.where_self(&batch.negatives.matching, &-&logits);
        let left_out = batch.negatives.with_matching().logical_not();
        -of_matches.log_sigmoid().masked_fill(&left_out, 0.0).sum(Kind::Double) / batch.scores.size()[0]
    }

    fn problems(&self, _: BatchSpec) -> Problems {
        let bias = (!self.bias.is_finite()).then(|| ("bias".into(), format!("got {}, wanted a number", self.bias)));
        not_positive("temperature", self.temperature).into_iter().chain(bias).collect()
    }

    fn value_if_equal(&self, _: usize) -> Option<f64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{evaluate, evaluate_masked};
    use super::*;

    /// By hand, with t = 2 and b = −1: logits 0.2, −0.6 / −0.4, −0.2, of which those of negatives change their sign.
    #[test]
    fn two_pairs_are_four_questions() {
        let loss = Sigmoid { temperature: 2.0, bias: -1.0 };
        let scores = [0.6, 0.2, 0.3, 0.4];
        let cost = |logit: f64| (-logit).exp().ln_1p();
        let (value, gradient) = evaluate(&loss, &scores);
        assert!((value - (cost(0.2) + cost(0.6) + cost(0.4) + cost(-0.2)) / 2.0).abs() < 1e-15, "{value}");
        // t/n times the error of the predicted probability.
        let probability = |logit: f64| 1.0 / (1.0 + (-logit).exp());
        let wanted = [probability(0.2) - 1.0, probability(-0.6), probability(-0.4), probability(-0.2) - 1.0];
        assert!(gradient.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 1e-15), "{gradient:?}");

        let (value, gradient) = evaluate_masked(&loss, &scores, &[false, true, true, false]);
        assert!((value - f64::midpoint(cost(0.2), cost(-0.2))).abs() < 1e-15, "{value}");
        assert_eq!(gradient[1..3], [0.0, 0.0]);
    }
}
