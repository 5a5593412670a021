//! Sigmoid loss of `SigLIP`, a binary classification of every pair (Zhai, Mustafa, Kolesnikov, Beyer, "Sigmoid Loss for
//! Language Image Pre-Training", ICCV 2023).
//!
//! (1/n) Σᵢ Σⱼ ln(1 + e^{zᵢⱼ·(−t·Sᵢⱼ − b)}) with zᵢⱼ = 1 for matching pairs and −1 for negatives; masked captions of
//! the same image are left out. Temperature t and bias b are settings, not learned; the paper starts with t = 10 and b
//! = −10.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::function::{BatchSpec, LossFunction, LossInput, check_positive};
use crate::model::setting_problems::{SettingProblems, check_plausible};

/// Binary cross entropy of every image-caption pair of the batch (`SigLIP`: Zhai et al., ICCV 2023). Summed over
/// captions, averaged over images.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct SigmoidLoss {
    /// Temperature t, a factor of the scores.
    pub temperature: f64,
    /// Bias b, added to the scaled scores. Below 0, because most pairs do not match.
    pub bias: f64,
}

impl Default for SigmoidLoss {
    fn default() -> Self {
        Self { temperature: 10.0, bias: -10.0 }
    }
}

impl LossFunction for SigmoidLoss {
    fn value(&self, batch: &LossInput<'_>) -> Tensor {
        let logits = batch.scores * self.temperature + self.bias;
        let of_matches = logits.where_self(&batch.negatives.is_matching, &-&logits);
        let left_out = batch.negatives.unmasked().logical_not();
        -of_matches.log_sigmoid().masked_fill(&left_out, 0.0).sum(Kind::Double) / batch.scores.size()[0]
    }

    fn problems(&self, _: BatchSpec) -> SettingProblems {
        let bias = (!self.bias.is_finite()).then(|| ("bias".into(), format!("got {}, wanted a number", self.bias)));
        check_positive("temperature", self.temperature).into_iter().chain(bias).collect()
    }

    fn implausible(&self) -> SettingProblems {
        let temperature = (0.5..=1000.0, "usual is 1 to 100: a factor, so a divisor of 0.05 is a temperature of 20");
        let bias = (-100.0..=0.0, "usual is -20 to 0: above 0 most pairs would count as matching at first");
        let own =
            [check_plausible("temperature", self.temperature, temperature), check_plausible("bias", self.bias, bias)];
        own.into_iter().flatten().collect()
    }

    fn collapse_value(&self, _: usize) -> Option<f64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{evaluate, evaluate_masked};
    use super::*;

    /// By hand, with t = 2 and b = −1: logits 0.2, −0.6 / −0.4, −0.2. The signs of those of negatives are flipped.
    #[test]
    fn two_pairs_are_four_binary_classifications() {
        let loss = SigmoidLoss { temperature: 2.0, bias: -1.0 };
        let scores = [0.6, 0.2, 0.3, 0.4];
        let cost = |logit: f64| (-logit).exp().ln_1p();
        let (value, gradient) = evaluate(&loss, &scores);
        assert!((value - (cost(0.2) + cost(0.6) + cost(0.4) + cost(-0.2)) / 2.0).abs() < 1e-15, "{value}");
        // The gradient is t/n times the error of the predicted probability.
        let probability = |logit: f64| 1.0 / (1.0 + (-logit).exp());
        let wanted = [probability(0.2) - 1.0, probability(-0.6), probability(-0.4), probability(-0.2) - 1.0];
        assert!(gradient.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 1e-15), "{gradient:?}");

        let (value, gradient) = evaluate_masked(&loss, &scores, &[false, true, true, false]);
        assert!((value - f64::midpoint(cost(0.2), cost(-0.2))).abs() < 1e-15, "{value}");
        assert_eq!(gradient[1..3], [0.0, 0.0]);
    }
}
