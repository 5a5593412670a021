//! `InfoNCE` in both directions (van den Oord, Li, Vinyals, "Representation Learning with Contrastive Predictive
//! Coding", 2018; symmetric as in Radford et al., "CLIP", ICML 2021).
//!
//! (1/2n) Σᵢ { ln Σⱼ e^{(Sᵢⱼ−Sᵢᵢ)/τ} + ln Σⱼ e^{(Sⱼᵢ−Sᵢᵢ)/τ} }, where j runs over the negatives and the pair itself.
//! The temperature τ is a setting, not learned. If all scores are equal, the value is ln n.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::function::{BatchSpec, LossFunction, LossInput, check_positive};
use crate::model::setting_problems::{SettingProblems, check_plausible};

/// Cross entropy of classifying the caption of each image and the image of each caption. Averaged over the batch.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct InfoNceLoss {
    /// Temperature τ, a divisor of the scores.
    pub temperature: f64,
}

impl Default for InfoNceLoss {
    fn default() -> Self {
        Self { temperature: 0.07 }
    }
}

impl LossFunction for InfoNceLoss {
    fn value(&self, batch: &LossInput<'_>) -> Tensor {
        let compared = batch.negatives.unmasked();
        let logits = (batch.scores / self.temperature).masked_fill(&compared.logical_not(), f64::NEG_INFINITY);
        let all = logits.logsumexp(1, false) + logits.logsumexp(0, false);
        (all / 2.0 - logits.diag(0)).mean(Kind::Double)
    }

    fn problems(&self, _: BatchSpec) -> SettingProblems {
        check_positive("temperature", self.temperature).into_iter().collect()
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
    use super::super::testing::evaluate;
    use super::*;

    #[test]
    fn two_pairs_cost_the_logarithms_of_their_probabilities() {
        let (value, gradient) = evaluate(&InfoNceLoss { temperature: 0.1 }, &[0.5, 0.2, 0.3, 0.4]);
        let [a, b, c, d] = [-3.0f64, -1.0, -2.0, -2.0].map(|x| x.exp().ln_1p());
        assert!((value - (a + b + c + d) / 4.0).abs() < 1e-14);
        // Caption 1 of image 0 has e⁻³/(1+e⁻³) of its row and e⁻²/(1+e⁻²) of its column.
        let part = |x: f64| x.exp() / (1.0 + x.exp());
        assert!((gradient[1] - (part(-3.0) + part(-2.0)) / 4.0 / 0.1).abs() < 1e-14);
        assert!(gradient.iter().sum::<f64>().abs() < 1e-12);
        assert_eq!(evaluate(&InfoNceLoss { temperature: 0.1 }, &[0.3]), (0.0, vec![0.0]));
    }
}
