//! HAL, the hubness-aware loss: every negative counts by its share among all, and by the density around it (Liu, Ye, Wang,
//! Li, "HAL: Improved Text-Image Matching by Mitigating Visual Semantic Hubs", AAAI 2020, equation 7).
//!
//! (1/n) Σᵢ { ln(1 + Σ_{m≠i} e^{γ·Wₘᵢ·(Sₘᵢ−ε)}) / γ + ln(1 + Σ_{m≠i} e^{γ·Wᵢₘ·(Sᵢₘ−ε)}) / γ − ln(1 + Wᵢᵢ·Sᵢᵢ) }.
//!
//! The weights are those of [`bank_weights`](super::bank_weights), all 1 without a bank. They are constants of a step: the
//! code detaches them, and the paper's gradient (equation 8) treats them so.
//!
//! The last logarithm has no value where Wᵢᵢ·Sᵢᵢ ≤ −1, which cosines hardly reach and order violations do: for
//! 1 + Wᵢᵢ·Sᵢᵢ < [`TANGENT`] it is continued along its tangent.
//!
//! Published code ([`Variant::Official`]) differs in five ways. Three are in the weights, where they are described. The other
//! two:
//! - The diagonal of the weights is 0, so the matching pair stands among its own negatives as e⁰: the 1 beside the sums of
//!   negatives becomes 2. (Without weights its score there is 0, and 1 becomes 1 + e^{−γε}, 1.0001 with the paper's settings.)
//! - Other captions of the same image are negatives, in the batch and in the bank. Here that is the caller's choice, by the
//!   mask of the batch and by −∞ in the scores of the bank.
//!
//! Nor does it pull a matching pair with a score below 0: its last term is ln(1 + \[Wᵢᵢ·Sᵢᵢ\]₊), so that a model with order
//! violations, which has no other scores, learns from negatives alone.
//!
//! A single pair gives −ln(1 + W₀₀·S₀₀) (paper): it is pulled, nothing is pushed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::bank_weights::{Weights, bank_weights};
use super::function::{Batch, BatchSpec, LossFunction, Problems, not_a_margin, not_positive};
use super::max::Max;
use super::variant::Variant;

/// Below this, ln(x) goes on along its tangent.
const TANGENT: f64 = 0.01;

/// Every negative counts by its share among all (HAL: Liu et al., AAAI 2020), and with a memory bank by the density around
/// it. The mean over the batch: learning rates of the other objectives do not carry over.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Hal {
    /// Temperature γ. The paper has 30 for MS-COCO and 60 for Flickr30k.
    pub gamma: f64,
    /// Margin ε. The paper has 0.3 for MS-COCO and 0.7 for Flickr30k.
    pub epsilon: f64,
    /// The paper's formulas, or what the published code computes: matching pairs among their own negatives, no pull where a
    /// score is below 0, and with a bank other margins and no more neighbours than the batch has pairs.
    pub variant: Variant,
    /// Adds MAX with this margin, as a mean over the batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

impl Default for Hal {
    fn default() -> Self {
        Self { gamma: 30.0, epsilon: 0.3, variant: Variant::default(), max: None }
    }
}

impl LossFunction for Hal {
    fn value(&self, batch: &Batch<'_>) -> Tensor {
        let weights = batch.bank.map(|(settings, bank)| bank_weights(batch.scores, bank, settings, self.variant));
        let value = self.weighted(batch, weights.as_ref());
        match self.max {
            Some(margin) => value + Max { margin }.value(batch) / batch.scores.size()[0],
            None => value,
        }
    }

    fn problems(&self, BatchSpec { never_positive, .. }: BatchSpec) -> Problems {
        let mut problems = Problems::new();
        problems.extend(not_positive("gamma", self.gamma));
        problems.extend(not_a_margin("epsilon", self.epsilon));
        problems.extend(self.max.and_then(|max| not_a_margin("max", max)));
        if never_positive && self.variant == Variant::Official {
            let message = "the published code raises no score below 0, and none is above: nothing is learned; wanted `variant = \"paper\"` with `epsilon = 0.0`";
            problems.push(("variant".into(), message.into()));
        } else if never_positive && self.epsilon > 0.0 {
            let message =
                format!("got {}: no score is above 0, so that no negative would count; wanted 0", self.epsilon);
            problems.push(("epsilon".into(), message));
        }
        problems
    }

    fn value_if_equal(&self, _: usize) -> Option<f64> {
        None
    }

    fn uses_memory_bank(&self) -> bool {
        true
    }
}

impl Hal {
    /// Without MAX, with these weights.
    fn weighted(&self, batch: &Batch<'_>, weights: Option<&Weights>) -> Tensor {
        let Self { gamma, epsilon, variant, .. } = *self;
        let offset = match (variant, weights) {
            (Variant::Paper, _) => 0.0,
            (Variant::Official, None) => (-gamma * epsilon).exp().ln_1p(),
            (Variant::Official, Some(_)) => std::f64::consts::LN_2,
        };
        let (exponents, pull) = ((batch.scores - epsilon) * gamma, batch.scores.diag(0));
        let (exponents, pull) = match weights {
            Some(weights) => (exponents * &weights.negative, pull * &weights.positive),
            None => (exponents, pull),
        };
        // The diagonal has room for the constant in each sum.
        let exponents = exponents
            .masked_fill(&batch.negatives.with_matching().logical_not(), f64::NEG_INFINITY)
            .masked_fill(&batch.negatives.matching, offset);
        let push = (exponents.logsumexp(1, false) + exponents.logsumexp(0, false)) / gamma;
        (push - pulled(&pull, variant)).mean(Kind::Double)
    }
}

/// ln(1 + x) as it stands in the objective.
fn pulled(x: &Tensor, variant: Variant) -> Tensor {
    match variant {
        Variant::Official => x.relu().log1p(),
        Variant::Paper => {
            let inside = x.clamp_min(TANGENT - 1.0);
            inside.log1p() + (x - inside) / TANGENT
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::negatives::Negatives;
    use super::super::testing::{assert_central_differences, differentiate, evaluate, random};
    use super::super::{BankScores, BankWeights};
    use super::*;

    /// Two pairs with γ = 2, ε = 0.5, written out.
    #[test]
    fn negatives_push_and_matching_pairs_pull() {
        let scores = [0.5, 0.2, 0.3, -0.4];
        let [right, below] = [0.2, 0.3].map(|s: f64| (2.0 * (s - 0.5)).exp());
        let wanted = |offset: f64, last: f64| {
            let push = (offset + right).ln() + (offset + below).ln();
            // Each negative is one of a row and of a column.
            (2.0 * push / 2.0 - 1.5f64.ln() - last) / 2.0
        };
        let loss = Hal { gamma: 2.0, epsilon: 0.5, ..Hal::default() };
        let paper = evaluate(&loss, &scores);
        assert!((paper.0 - wanted(1.0, 0.6f64.ln())).abs() < 1e-14);
        assert!((paper.1[1] - right / (1.0 + right)).abs() < 1e-14);
        assert!((paper.1[3] + 0.5 / 0.6).abs() < 1e-14);

        let official = evaluate(&Hal { variant: Variant::Official, ..loss }, &scores);
        let offset = 1.0 + (-1.0f64).exp();
        assert!((official.0 - wanted(offset, 0.0)).abs() < 1e-14);
        assert!((official.1[2] - below / (offset + below)).abs() < 1e-14);
        assert_eq!(official.1[3], 0.0);
    }

    #[test]
    fn a_pair_that_does_not_fit_at_all_has_a_value_and_is_pulled() {
        for (score, wanted) in [(-1.0, -(0.01f64.ln() - 1.0)), (-2.5, -(0.01f64.ln() - 151.0))] {
            let (value, gradient) = evaluate(&Hal::default(), &[score]);
            assert!((value - wanted).abs() < 1e-9, "{value}");
            assert!((gradient[0] + 100.0).abs() < 1e-9);
        }
    }

    /// The weights are constants of a step, so they stay while a score moves.
    #[test]
    fn with_a_bank_the_gradient_is_that_of_constant_weights() {
        let (n, rows) = (6, 9);
        let bank = BankScores { captions: random(1, n, rows), images: random(2, n, rows) };
        let settings = BankWeights { neighbours: 4, alpha: 4.0, beta: 3.0, ..BankWeights::default() };
        let scores = random(3, n, n);
        let negatives = Negatives::new(&scores, None);
        let batch = Batch { scores: &scores, negatives: &negatives, bank: Some((&settings, &bank)) };
        for variant in [Variant::Paper, Variant::Official] {
            let loss = Hal { gamma: 3.0, variant, ..Hal::default() };
            let weights = bank_weights(&scores, &bank, &settings, variant);
            let (_, gradient) = differentiate(&scores, |scores| loss.value(&Batch { scores, ..batch }));
            assert_central_differences(&format!("{variant:?}"), &scores, &gradient, |scores| {
                loss.weighted(&Batch { scores, ..batch }, Some(&weights)).double_value(&[])
            });
        }
    }
}
