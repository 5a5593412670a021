//! `InfoNCE` in both directions (van den Oord, Li, Vinyals, "Representation Learning with Contrastive Predictive
//! Coding", 2018; symmetric as in Radford et al., "CLIP", ICML 2021).
//!
//! (1/2n) Σᵢ { ln Σⱼ e^{(Sᵢⱼ−Sᵢᵢ)/τ} + ln Σⱼ e^{(Sⱼᵢ−Sᵢᵢ)/τ} }, where j runs over the negatives and the pair itself.
//! The temperature τ is fixed, or learned as 1/τ = e^{t'} as in CLIP. If all scores are equal, the value is ln n.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchSpec, LearnedScalar, LossSettings, check_positive};
use crate::setting_problems::is_false;
use pairloom_stage::Problem;

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

impl LossSettings for InfoNceLoss {
    fn problems(&self, _: BatchSpec) -> Vec<Problem> {
        let smallest = 1.0 / LARGEST_SCALE;
        if self.learned && self.temperature > 0.0 && self.temperature < smallest {
            let message = format!("got {}, expected at least {smallest} where it is learned", self.temperature);
            return vec![Problem::new("temperature", message)];
        }
        let usual = (1e-3..=2.0, "usual is 0.01 to 0.5: a divisor, so a factor of 20 is a temperature of 0.05");
        check_positive("temperature", self.temperature, usual).into_iter().collect()
    }

    fn learned_scalars(&self) -> Vec<LearnedScalar> {
        let largest = Some(LARGEST_SCALE.ln());
        let log_scale =
            LearnedScalar { largest, ..LearnedScalar::new("log_inverse_temperature", -self.temperature.ln()) };
        if self.learned { vec![log_scale] } else { Vec::new() }
    }

    #[expect(clippy::cast_precision_loss, reason = "batches are far below 2^53 pairs")]
    fn collapse_value(&self, pairs: usize) -> Option<f64> {
        Some((pairs.max(1) as f64).ln())
    }
}
