//! Weights of HAL from a memory bank, on tensors (Liu et al., AAAI 2020, equation 6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use super::settings::{Problems, Variant, not_a_margin, not_positive};

/// How the rows of a memory bank weigh the pairs of a batch (HAL: Liu et al., AAAI 2020, equation 6).
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BankWeights {
    /// Rows of the bank nearest to an image or caption that count, k. The paper does not give it; 250 is the published
    /// code's, which takes no more than the batch has pairs (`variant = "official"`).
    #[serde(default = "neighbours")]
    pub neighbours: usize,
    /// Temperature of the weights of matching pairs, α.
    #[serde(default = "temperature")]
    pub alpha: f64,
    /// Temperature of the weights of negatives, β.
    #[serde(default = "temperature")]
    pub beta: f64,
    /// Margin of the scores of matching pairs, ε₁.
    #[serde(default = "epsilon_positive")]
    pub epsilon_positive: f64,
    /// Margin of the scores with the bank, ε₂.
    #[serde(default = "epsilon_negative")]
    pub epsilon_negative: f64,
}

fn neighbours() -> usize {
    250
}

fn temperature() -> f64 {
    40.0
}

fn epsilon_positive() -> f64 {
    0.2
}

fn epsilon_negative() -> f64 {
    0.1
}

impl Default for BankWeights {
    fn default() -> Self {
        Self {
            neighbours: neighbours(),
            alpha: temperature(),
            beta: temperature(),
            epsilon_positive: epsilon_positive(),
            epsilon_negative: epsilon_negative(),
        }
    }
}

impl BankWeights {
    /// What is wrong with it: names of settings and what is wrong with each. `rows` is the size of the bank, if it is known.
    #[must_use]
    pub fn problems(&self, rows: Option<usize>) -> Problems {
        let mut problems = Problems::new();
        match rows {
            _ if self.neighbours == 0 => problems.push(("neighbours".into(), "got 0, wanted at least 1".into())),
            Some(rows) if self.neighbours > rows => problems.push((
                "neighbours".into(),
                format!("got {}, wanted at most {rows}: the rows of the bank", self.neighbours),
            )),
            _ => {}
        }
        for (name, value) in [("alpha", self.alpha), ("beta", self.beta)] {
            problems.extend(not_positive(name, value));
        }
        for (name, value) in [("epsilon_positive", self.epsilon_positive), ("epsilon_negative", self.epsilon_negative)]
        {
            problems.extend(not_a_margin(name, value));
        }
        problems
    }
}

/// Scores of a batch of `n` pairs with a bank of `M`.
#[derive(Debug)]
pub struct BankScores {
    /// `[n, M]`: image i with caption m of the bank, −∞ where it does not count.
    pub captions: Tensor,
    /// `[n, M]`: caption j with image m of the bank, −∞ where it does not count.
    pub images: Tensor,
}

/// Weights of the scores of a batch, without gradient.
pub(super) struct Weights {
    /// `[n, n]`.
    pub negative: Tensor,
    /// `[n]`.
    pub positive: Tensor,
}

/// [`kernels::loss::bank_weights`](crate::kernels::loss::bank_weights()) of scores `[n, n]`.
///
/// Cost: the selection of the largest among `2·n·M` scores, all else is small beside it.
pub(super) fn bank_weights(scores: &Tensor, bank: &BankScores, settings: &BankWeights, variant: Variant) -> Weights {
    let matching = scores.detach().diag(0);
    let mut k = i64::try_from(settings.neighbours).unwrap_or(i64::MAX).min(bank.captions.size()[1]);
    if variant == Variant::Official {
        k = k.min(matching.size()[0]);
    }
    let near = |scores: &Tensor| scores.detach().topk(k, 1, true, false).0;
    let (captions, images) = (near(&bank.captions), near(&bank.images));
    let sum = |terms: Tensor| terms.logsumexp(1, false);

    let BankWeights { alpha, beta, epsilon_positive, epsilon_negative, .. } = settings;
    let (bank_offset, matching_offset, positive_offset) = match variant {
        Variant::Paper => (-beta * epsilon_negative, -beta * epsilon_positive, -alpha * epsilon_negative),
        Variant::Official => (-epsilon_negative, 0.0, -alpha * epsilon_positive),
    };
    let (near_images, near_captions) = (sum(&captions * *beta + bank_offset), sum(&images * *beta + bank_offset));
    let around = near_images.unsqueeze(1).logaddexp(&near_captions.unsqueeze(0));
    let own = &matching * *beta + matching_offset;
    let own = own.unsqueeze(1).logaddexp(&own.unsqueeze(0));
    let negative = (around - own).sigmoid();

    let around = sum(Tensor::cat(&[captions, images], 1) * *alpha + positive_offset);
    let positive = (around - (matching - *epsilon_positive) * *alpha).sigmoid();
    Weights { negative, positive }
}
