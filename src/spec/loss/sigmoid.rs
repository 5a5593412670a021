//! Sigmoid loss of `SigLIP`, a binary classification of every pair (Zhai, Mustafa, Kolesnikov, Beyer, "Sigmoid Loss for
//! Language Image Pre-Training", ICCV 2023).
//!
//! (1/n) Σᵢ Σⱼ ln(1 + e^{zᵢⱼ·(−t·Sᵢⱼ − b)}) with zᵢⱼ = 1 for matching pairs and −1 for negatives; masked captions of
//! the same image are left out. Temperature t and bias b are fixed, or learned as in the paper, with t = e^{t'}. The paper
//! starts with t = 10 and b = −10.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchSpec, LearnedScalar, LossSettings, check_positive};
use crate::setting_problems::{check_plausible, is_false};
use pairloom_stage::Problem;

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

impl LossSettings for SigmoidLoss {
    fn problems(&self, _: BatchSpec) -> Vec<Problem> {
        let temperatures = (0.5..=1000.0, "usual is 1 to 100: a factor, so a divisor of 0.05 is a temperature of 20");
        let biases = (-100.0..=0.0, "usual is -20 to 0: above 0 most pairs would count as matching at first");
        let bias = if self.bias.is_finite() {
            check_plausible("bias", self.bias, biases)
        } else {
            Some(Problem::new("bias", format!("got {}, expected a number", self.bias)))
        };
        check_positive("temperature", self.temperature, temperatures).into_iter().chain(bias).collect()
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
