//! `InfoNCE` in both directions (van den Oord, Li, Vinyals, "Representation Learning with Contrastive Predictive
//! Coding", 2018; symmetric as in Radford et al., "CLIP", ICML 2021).
//!
//! (1/2n) Σᵢ { ln Σⱼ e^{(Sᵢⱼ−Sᵢᵢ)/τ} + ln Σⱼ e^{(Sⱼᵢ−Sᵢᵢ)/τ} }, where j runs over the negatives and the pair itself.
//! The temperature τ is fixed, or learned as 1/τ = e^{t'} as in CLIP. If all scores are equal, the value is ln n.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::function::{BatchSpec, LossFunction, LossInput, check_positive};
use super::learned_scalar::LearnedScalar;
use crate::model::setting_problems::{SettingProblems, check_plausible, is_false};

/// Cross entropy of classifying the caption of each image and the image of each caption. Averaged over the batch.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct InfoNceLoss {
    /// Temperature τ, a divisor of the scores.
    pub temperature: f64,
    /// True if `temperature` is only where a training begins, as in CLIP: ln(1/τ) is trained with the model, and is at
    /// most ln 100. Table `loss_scalars` has its values. Weight decay does not apply to it.
    #[serde(skip_serializing_if = "is_false")]
    pub learned: bool,
}

/// Largest inverse temperature that is learned, as in CLIP.
const LARGEST_SCALE: f64 = 100.0;

impl Default for InfoNceLoss {
    fn default() -> Self {
        Self { temperature: 0.07, learned: false }
    }
}

impl LossFunction for InfoNceLoss {
    fn value(&self, batch: &LossInput<'_>) -> Tensor {
        let compared = batch.negatives.unmasked();
        let logits = match batch.scalars {
            [log_scale] => batch.scores * log_scale.exp(),
            _ => batch.scores / self.temperature,
        };
        let logits = logits.masked_fill(&compared.logical_not(), f64::NEG_INFINITY);
        let all = logits.logsumexp(1, false) + logits.logsumexp(0, false);
        (all / 2.0 - logits.diag(0)).mean(Kind::Double)
    }

    fn problems(&self, _: BatchSpec) -> SettingProblems {
        let positive = check_positive("temperature", self.temperature);
        let smallest = (self.learned && self.temperature < 1.0 / LARGEST_SCALE).then(|| {
            let message =
                format!("got {}, wanted at least {} where it is learned", self.temperature, 1.0 / LARGEST_SCALE);
            ("temperature".to_owned(), message)
        });
        positive.or(smallest).into_iter().collect()
    }

    fn learned_scalars(&self) -> Vec<LearnedScalar> {
        let largest = Some(LARGEST_SCALE.ln());
        let log_scale =
            LearnedScalar { largest, ..LearnedScalar::new("log_inverse_temperature", -self.temperature.ln()) };
        if self.learned { vec![log_scale] } else { Vec::new() }
    }

    fn implausible(&self) -> SettingProblems {
        let usual = (1e-3..=2.0, "usual is 0.01 to 0.5: a divisor, so a factor of 20 is a temperature of 0.05");
        check_plausible("temperature", self.temperature, usual).into_iter().collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "batches are far below 2^53 pairs")]
    fn collapse_value(&self, pairs: usize) -> Option<f64> {
        Some((pairs.max(1) as f64).ln())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Loss;
    use super::super::testing::{evaluate, learned_gradients};
    use super::*;

    #[test]
    fn two_pairs_cost_the_logarithms_of_their_probabilities() {
        let (value, gradient) = evaluate(&InfoNceLoss { temperature: 0.1, learned: false }, &[0.5, 0.2, 0.3, 0.4]);
        let [a, b, c, d] = [-3.0f64, -1.0, -2.0, -2.0].map(|x| x.exp().ln_1p());
        assert!((value - (a + b + c + d) / 4.0).abs() < 1e-14);
        // Caption 1 of image 0 has e⁻³/(1+e⁻³) of its row and e⁻²/(1+e⁻²) of its column.
        let part = |x: f64| x.exp() / (1.0 + x.exp());
        assert!((gradient[1] - (part(-3.0) + part(-2.0)) / 4.0 / 0.1).abs() < 1e-14);
        assert!(gradient.iter().sum::<f64>().abs() < 1e-12);
        assert_eq!(evaluate(&InfoNceLoss { temperature: 0.1, learned: false }, &[0.3]), (0.0, vec![0.0]));
    }

    /// The derivative in ln(1/τ) is Σ S · ∂L/∂S, since the loss depends on S/τ only.
    #[test]
    fn the_learned_temperature_has_the_gradient_of_scaled_scores() {
        let loss = InfoNceLoss { temperature: 0.1, learned: true };
        let scores = [0.5, 0.2, 0.3, 0.4];
        let (of_scores, of_scalars) = learned_gradients(Loss::InfoNce(loss), &scores);
        let fixed = evaluate(&InfoNceLoss { learned: false, ..loss }, &scores).1;
        assert!(of_scores.iter().zip(&fixed).all(|(a, b)| (a - b).abs() < 1e-13), "{of_scores:?} {fixed:?}");
        let wanted: f64 = fixed.iter().zip(scores).map(|(d, score)| d * score).sum();
        assert!(of_scalars.len() == 1 && (of_scalars[0] - wanted).abs() < 1e-13, "{of_scalars:?}, wanted {wanted}");
    }
}
