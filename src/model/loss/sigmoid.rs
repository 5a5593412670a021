//! Sigmoid loss of `SigLIP`, a binary classification of every pair (Zhai, Mustafa, Kolesnikov, Beyer, "Sigmoid Loss for
//! Language Image Pre-Training", ICCV 2023).
//!
//! (1/n) Σᵢ Σⱼ ln(1 + e^{zᵢⱼ·(−t·Sᵢⱼ − b)}) with zᵢⱼ = 1 for matching pairs and −1 for negatives; masked captions of
//! the same image are left out. Temperature t and bias b are fixed, or learned as in the paper, with t = e^{t'}. The paper
//! starts with t = 10 and b = −10.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::function::{BatchSpec, LossFunction, LossInput, check_positive};
use super::learned_scalar::LearnedScalar;
use crate::model::setting_problems::{SettingProblems, check_plausible, is_false};

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
    /// True if `temperature` and `bias` are only where a training begins, as in the paper: ln t and b are trained with the
    /// model. Table `loss_scalars` has their values. Weight decay does not apply to them.
    #[serde(skip_serializing_if = "is_false")]
    pub learned: bool,
}

impl Default for SigmoidLoss {
    fn default() -> Self {
        Self { temperature: 10.0, bias: -10.0, learned: false }
    }
}

impl LossFunction for SigmoidLoss {
    fn value(&self, batch: &LossInput<'_>) -> Tensor {
        let logits = match batch.scalars {
            [log_temperature, bias] => batch.scores * log_temperature.exp() + bias,
            _ => batch.scores * self.temperature + self.bias,
        };
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

    fn learned_scalars(&self) -> Vec<LearnedScalar> {
        if !self.learned {
            return Vec::new();
        }
        vec![LearnedScalar::new("log_temperature", self.temperature.ln()), LearnedScalar::new("bias", self.bias)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::Loss;
    use super::super::testing::{evaluate, evaluate_masked, learned_gradients};
    use super::*;

    /// By hand, with t = 2 and b = −1: logits 0.2, −0.6 / −0.4, −0.2. The signs of those of negatives are flipped.
    #[test]
    fn two_pairs_are_four_binary_classifications() {
        let loss = SigmoidLoss { temperature: 2.0, bias: -1.0, learned: false };
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

    /// By hand, as above: the derivative in b is the mean over images of all errors, that in ln t also has the factor
    /// t · S of each.
    #[test]
    fn learned_temperature_and_bias_have_the_gradients_of_the_errors() {
        let loss = SigmoidLoss { temperature: 2.0, bias: -1.0, learned: true };
        let scores = [0.6, 0.2, 0.3, 0.4];
        let probability = |logit: f64| 1.0 / (1.0 + (-logit).exp());
        let errors = [probability(0.2) - 1.0, probability(-0.6), probability(-0.4), probability(-0.2) - 1.0];
        let (of_scores, of_scalars) = learned_gradients(Loss::Sigmoid(loss), &scores);
        assert_eq!(of_scores, evaluate(&SigmoidLoss { learned: false, ..loss }, &scores).1);
        let of_log = errors.iter().zip(scores).map(|(error, score)| error * 2.0 * score).sum::<f64>() / 2.0;
        for (got, wanted) in of_scalars.iter().zip([of_log, errors.iter().sum::<f64>() / 2.0]) {
            assert!((got - wanted).abs() < 1e-15, "{of_scalars:?}, wanted {wanted}");
        }
        assert_eq!(of_scalars.len(), 2);
    }
}
