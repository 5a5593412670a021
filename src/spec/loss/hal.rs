//! HAL, the hubness-aware loss, which weighs every negative by softmax and by the density around it (Liu, Ye, Wang, Li,
//! "HAL: Improved Text-Image Matching by Mitigating Visual Semantic Hubs", AAAI 2020, equation 7).
//!
//! (1/n) Σᵢ { ln(1 + Σ_{m≠i} e^{γ·Wₘᵢ·(Sₘᵢ−ε)}) / γ + ln(1 + Σ_{m≠i} e^{γ·Wᵢₘ·(Sᵢₘ−ε)}) / γ − ln(1 + Wᵢᵢ·Sᵢᵢ) }.
//!
//! The weights are those of [`memory_bank`](super::memory_bank), all 1 without a memory bank. They have
//! no gradient: the published code detaches them, and so does the paper's gradient (equation 8).
//!
//! The last logarithm is undefined for Wᵢᵢ·Sᵢᵢ ≤ −1, which cosines hardly reach but scores of order embeddings do. For
//! 1 + Wᵢᵢ·Sᵢᵢ < [`TANGENT`] it is continued along its tangent.
//!
//! Published code ([`FormulaVariant::Official`]) also differs from the paper in the weights, as described there, and in
//! three more ways:
//! - The diagonal of the weights is 0, so the matching pair is among its own negatives with e⁰: the 1 beside the sums
//!   over negatives becomes 2. (Without weights its score there is 0, and 1 becomes 1 + e^{−γε}, 1.0001 with the
//!   paper's settings.)
//! - Other captions of the same image are negatives, in the batch and in the memory bank. Here the caller chooses, by
//!   the mask of the batch and by −∞ in the scores with the memory bank.
//! - A matching pair with a score below 0 has no gradient: the last term is ln(1 + \[Wᵢᵢ·Sᵢᵢ\]₊). A model with order
//!   embeddings has only such scores and learns from negatives alone.
//!
//! The additional MAX loss ([`HalLoss::max`]) is an experiment of this project, in neither paper nor code.
//!
//! A batch of one pair has the value −ln(1 + W₀₀·S₀₀) (paper): the pair attracts, and there are no negatives.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchSpec, FormulaVariant, LossSettings, check_margin, check_positive};
use crate::setting_problems::MARGINS;
use pairloom_stage::Problem;

/// Value of x below which ln(x) is continued along its tangent.
pub const TANGENT: f64 = 0.01;

/// Hubness-aware loss (HAL: Liu et al., AAAI 2020): negatives are weighted by softmax and, with a memory bank, by the
/// density around them. Averaged over the batch, so learning rates of summed losses do not carry over.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct HalLoss {
    /// Temperature γ. The paper uses 30 for MS-COCO and 60 for Flickr30k.
    pub gamma: f64,
    /// Margin ε. The paper uses 0.3 for MS-COCO and 0.7 for Flickr30k.
    pub epsilon: f64,
    /// Formula of the paper or of the published code. The code differs in these points: matching pairs are among their
    /// own negatives, and matching scores below 0 have no gradient. With a memory bank, the margins differ and the
    /// neighbours are at most the pairs of the batch.
    pub variant: FormulaVariant,
    /// Margin of an additional MAX loss, averaged over the batch. Without it there is none. This combination is ours: no
    /// paper has it. MAX+HAL of the first version of HAL is `local_scaling = { over = "max" }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

impl Default for HalLoss {
    fn default() -> Self {
        Self { gamma: 30.0, epsilon: 0.3, variant: FormulaVariant::default(), max: None }
    }
}

impl LossSettings for HalLoss {
    fn problems(&self, BatchSpec { never_positive, .. }: BatchSpec) -> Vec<Problem> {
        let mut problems = Vec::new();
        let epsilons = (0.0..=1.0, "usual is 0 to 0.7, as scores are mostly below 1");
        problems.extend(check_positive("gamma", self.gamma, (1.0..=1000.0, "usual is 30 to 60")));
        problems.extend(check_margin("epsilon", self.epsilon, epsilons));
        problems.extend(self.max.and_then(|max| check_margin("max", max, MARGINS)));
        if never_positive && self.variant == FormulaVariant::Official {
            let message = "got `official`: scores are never above 0, and the published code gives no gradient to matching scores below 0; expected `variant = \"paper\"` with `epsilon = 0.0`";
            problems.push(Problem::new("variant", message));
        } else if never_positive && self.epsilon > 0.0 {
            let message =
                format!("got {}: scores are never above 0, so no negative would count; expected 0", self.epsilon);
            problems.push(Problem::new("epsilon", message));
        }
        problems
    }

    fn collapse_value(&self, _: usize) -> Option<f64> {
        None
    }

    fn uses_memory_bank(&self) -> bool {
        true
    }
}
