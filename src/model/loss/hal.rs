//! HAL, the hubness-aware loss, which weighs every negative by softmax and by the density around it (Liu, Ye, Wang, Li,
//! "HAL: Improved Text-Image Matching by Mitigating Visual Semantic Hubs", AAAI 2020, equation 7).
//!
//! (1/n) Σᵢ { ln(1 + Σ_{m≠i} e^{γ·Wₘᵢ·(Sₘᵢ−ε)}) / γ + ln(1 + Σ_{m≠i} e^{γ·Wᵢₘ·(Sᵢₘ−ε)}) / γ − ln(1 + Wᵢᵢ·Sᵢᵢ) }.
//!
//! The weights are those of [`memory_bank_weights`](super::memory_bank_weights), all 1 without a memory bank. They have
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
use tch::{Kind, Tensor};

use super::function::{BatchSpec, LossFunction, LossInput, check_margin, check_positive};
use super::max::MaxLoss;
use super::memory_bank_weights::{PairWeights, pair_weights};
use super::variant::FormulaVariant;
use crate::model::setting_problems::{MARGINS, SettingProblems, check_plausible};

/// Value of x below which ln(x) is continued along its tangent.
const TANGENT: f64 = 0.01;

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

impl LossFunction for HalLoss {
    fn value(&self, batch: &LossInput<'_>) -> Tensor {
        let weights =
            batch.memory_bank.map(|(settings, bank)| pair_weights(batch.scores, bank, settings, self.variant));
        let value = self.weighted(batch, weights.as_ref());
        match self.max {
            Some(margin) => value + MaxLoss { margin }.value(batch) / batch.scores.size()[0],
            None => value,
        }
    }

    fn problems(&self, BatchSpec { never_positive, .. }: BatchSpec) -> SettingProblems {
        let mut problems = SettingProblems::new();
        problems.extend(check_positive("gamma", self.gamma));
        problems.extend(check_margin("epsilon", self.epsilon));
        problems.extend(self.max.and_then(|max| check_margin("max", max)));
        if never_positive && self.variant == FormulaVariant::Official {
            let message = "got `official`: scores are never above 0, and the published code gives no gradient to matching scores below 0; wanted `variant = \"paper\"` with `epsilon = 0.0`";
            problems.push(("variant".into(), message.into()));
        } else if never_positive && self.epsilon > 0.0 {
            let message =
                format!("got {}: scores are never above 0, so no negative would count; wanted 0", self.epsilon);
            problems.push(("epsilon".into(), message));
        }
        problems
    }

    fn implausible(&self) -> SettingProblems {
        let gamma = (1.0..=1000.0, "usual is 30 to 60");
        let epsilon = (0.0..=1.0, "usual is 0 to 0.7, as scores are mostly below 1");
        let max = self.max.and_then(|max| check_plausible("max", max, MARGINS));
        let own = [check_plausible("gamma", self.gamma, gamma), check_plausible("epsilon", self.epsilon, epsilon)];
        own.into_iter().flatten().chain(max).collect()
    }

    fn collapse_value(&self, _: usize) -> Option<f64> {
        None
    }

    fn uses_memory_bank(&self) -> bool {
        true
    }
}

impl HalLoss {
    /// Value without MAX, with these weights.
    fn weighted(&self, batch: &LossInput<'_>, weights: Option<&PairWeights>) -> Tensor {
        let Self { gamma, epsilon, variant, .. } = *self;
        let offset = match (variant, weights) {
            (FormulaVariant::Paper, _) => 0.0,
            (FormulaVariant::Official, None) => (-gamma * epsilon).exp().ln_1p(),
            (FormulaVariant::Official, Some(_)) => std::f64::consts::LN_2,
        };
        let (exponents, pull) = ((batch.scores - epsilon) * gamma, batch.scores.diag(0));
        let (exponents, pull) = match weights {
            Some(weights) => (exponents * &weights.negative, pull * &weights.positive),
            None => (exponents, pull),
        };
        // The constant of each sum takes the place of the diagonal.
        let exponents = exponents
            .masked_fill(&batch.negatives.unmasked().logical_not(), f64::NEG_INFINITY)
            .masked_fill(&batch.negatives.is_matching, offset);
        let push = (exponents.logsumexp(1, false) + exponents.logsumexp(0, false)) / gamma;
        (push - log_matching(&pull, variant)).mean(Kind::Double)
    }
}

/// ln(1 + x) as the variant defines it.
fn log_matching(x: &Tensor, variant: FormulaVariant) -> Tensor {
    match variant {
        FormulaVariant::Official => x.relu().log1p(),
        FormulaVariant::Paper => {
            let inside = x.clamp_min(TANGENT - 1.0);
            inside.log1p() + (x - inside) / TANGENT
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::negatives::Negatives;
    use super::super::testing::{assert_central_differences, differentiate, evaluate, random};
    use super::super::{MemoryBankScores, MemoryBankWeights};
    use super::*;

    /// Two pairs with γ = 2, ε = 0.5, computed by hand.
    #[test]
    fn value_and_gradient_of_two_pairs_by_hand() {
        let scores = [0.5, 0.2, 0.3, -0.4];
        let [right, below] = [0.2, 0.3].map(|s: f64| (2.0 * (s - 0.5)).exp());
        let wanted = |offset: f64, last: f64| {
            let push = (offset + right).ln() + (offset + below).ln();
            // Each negative counts in a row and in a column.
            (2.0 * push / 2.0 - 1.5f64.ln() - last) / 2.0
        };
        let loss = HalLoss { gamma: 2.0, epsilon: 0.5, ..HalLoss::default() };
        let paper = evaluate(&loss, &scores);
        assert!((paper.0 - wanted(1.0, 0.6f64.ln())).abs() < 1e-14);
        assert!((paper.1[1] - right / (1.0 + right)).abs() < 1e-14);
        assert!((paper.1[3] + 0.5 / 0.6).abs() < 1e-14);

        let official = evaluate(&HalLoss { variant: FormulaVariant::Official, ..loss }, &scores);
        let offset = 1.0 + (-1.0f64).exp();
        assert!((official.0 - wanted(offset, 0.0)).abs() < 1e-14);
        assert!((official.1[2] - below / (offset + below)).abs() < 1e-14);
        assert_eq!(official.1[3], 0.0);
    }

    #[test]
    fn very_low_matching_scores_have_a_finite_value_and_gradient() {
        for (score, wanted) in [(-1.0, -(0.01f64.ln() - 1.0)), (-2.5, -(0.01f64.ln() - 151.0))] {
            let (value, gradient) = evaluate(&HalLoss::default(), &[score]);
            assert!((value - wanted).abs() < 1e-9, "{value}");
            assert!((gradient[0] + 100.0).abs() < 1e-9);
        }
    }

    /// The weights are detached, so they stay constant while a score changes.
    #[test]
    fn with_a_memory_bank_the_gradient_is_that_of_constant_weights() {
        let (n, rows) = (6, 9);
        let bank = MemoryBankScores { captions: random(1, n, rows), images: random(2, n, rows) };
        let settings = MemoryBankWeights { neighbours: 4, alpha: 4.0, beta: 3.0, ..MemoryBankWeights::default() };
        let scores = random(3, n, n);
        let negatives = Negatives::new(&scores, None);
        let memory_bank = Some((&settings, &bank));
        let batch = LossInput { scores: &scores, negatives: &negatives, memory_bank, scalars: &[] };
        for variant in [FormulaVariant::Paper, FormulaVariant::Official] {
            let loss = HalLoss { gamma: 3.0, variant, ..HalLoss::default() };
            let weights = pair_weights(&scores, &bank, &settings, variant);
            let (_, gradient) = differentiate(&scores, |scores| loss.value(&LossInput { scores, ..batch }));
            assert_central_differences(&format!("{variant:?}"), &scores, &gradient, |scores| {
                loss.weighted(&LossInput { scores, ..batch }, Some(&weights)).double_value(&[])
            });
        }
    }
}
