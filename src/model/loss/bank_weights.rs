//! Weights of HAL from a memory bank: how dense it is around a pair, seen from a sample of the whole training set (Liu, Ye,
//! Wang, Li, "HAL: Improved Text-Image Matching by Mitigating Visual Semantic Hubs", AAAI 2020, equation 6).
//!
//! Negatives have Wᵢⱼ = N/(N + e^{β(Sᵢᵢ−ε₁)} + e^{β(Sⱼⱼ−ε₁)}) with N = Σ_{K₁(i)} e^{β(s−ε₂)} + Σ_{K₂(j)} e^{β(s−ε₂)}, matching
//! pairs Wᵢᵢ = 1 − q/(q + Σ_{K₁(i)} e^{α(s−ε₂)} + Σ_{K₂(i)} e^{α(s−ε₂)}) with q = e^{α(Sᵢᵢ−ε₁)}.
//!
//! K₁(i) holds the `neighbours` captions of the bank that are nearest to image i, K₂(j) the images nearest to caption j (the
//! paper prints the set of texts for both). Of fewer rows all count; where none does the weight is 0.
//!
//! Published code ([`Variant::Official`]) differs in three ways, and in the number of neighbours:
//! - the margin of the bank's rows stands outside of the temperature in Wᵢⱼ: e^{βs−ε₂};
//! - Wᵢⱼ has no ε₁: e^{βSᵢᵢ}. With this and the former, the odds of neighbours against the matching pairs are e^{−ε₂} = 0.90
//!   times what the scores alone say, in the paper e^{β(ε₁−ε₂)} = 54.6 times;
//! - Wᵢᵢ has ε₁ in place of ε₂, so the margins cancel;
//! - no more neighbours than the batch has pairs.

use az::SaturatingAs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use super::variant::Variant;

/// How the rows of a memory bank weigh the pairs of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct BankWeights {
    /// k: how many of the most similar samples of the bank count for an image or a caption. The paper does not give it; 250
    /// is the published code's.
    pub neighbours: usize,
    /// Temperature α of the weights of matching pairs.
    pub alpha: f64,
    /// Temperature β of the weights of negatives.
    pub beta: f64,
    /// Margin ε₁ of matching pairs.
    pub epsilon_positive: f64,
    /// Margin ε₂ of neighbours.
    pub epsilon_negative: f64,
}

impl Default for BankWeights {
    /// Both variants, of paper and code.
    fn default() -> Self {
        Self { neighbours: 250, alpha: 40.0, beta: 40.0, epsilon_positive: 0.2, epsilon_negative: 0.1 }
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

/// Weights of the scores of a batch, between 0 and 1, without gradient.
#[derive(Debug)]
pub(super) struct Weights {
    /// `[n, n]`: Wᵢⱼ of the negatives; what stands on the diagonal is not used.
    pub negative: Tensor,
    /// `[n]`: Wᵢᵢ.
    pub positive: Tensor,
}

/// Weights of the scores `[n, n]`.
///
/// Cost: the selection of the largest among `2·n·M` scores, all else is small beside it.
pub(super) fn bank_weights(scores: &Tensor, bank: &BankScores, settings: &BankWeights, variant: Variant) -> Weights {
    let matching = scores.detach().diag(0);
    let mut k = bank.captions.size()[1].min(settings.neighbours.saturating_as());
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

#[cfg(test)]
mod tests {
    use super::super::testing::row;
    use super::*;

    const SETTINGS: BankWeights =
        BankWeights { neighbours: 2, alpha: 3.0, beta: 2.0, epsilon_positive: 0.2, epsilon_negative: 0.1 };

    /// Negative and positive weight of one pair with score 0.5.
    fn weights(captions: &[f64], images: &[f64], variant: Variant) -> [f64; 2] {
        let bank = BankScores { captions: row(captions), images: row(images) };
        let found = bank_weights(&row(&[0.5]), &bank, &SETTINGS, variant);
        [found.negative, found.positive].map(|weight| weight.view(-1).double_value(&[0]))
    }

    /// One pair and a bank of three rows, of which two count.
    #[test]
    fn the_nearest_rows_weigh_a_pair() {
        const NONE: f64 = f64::NEG_INFINITY;
        let (captions, images) = ([0.4, 0.1, 0.3], [NONE, 0.2, NONE]);
        let sum = |terms: &[f64]| terms.iter().map(|x| x.exp()).sum::<f64>();

        let paper = weights(&captions, &images, Variant::Paper);
        let neighbours = sum(&[2.0 * 0.3, 2.0 * 0.2, 2.0 * 0.1]);
        assert!((paper[0] - neighbours / (neighbours + 2.0 * (2.0f64 * 0.3).exp())).abs() < 1e-15);
        let neighbours = sum(&[3.0 * 0.3, 3.0 * 0.2, 3.0 * 0.1]);
        assert!((paper[1] - neighbours / (neighbours + (3.0f64 * 0.3).exp())).abs() < 1e-15);

        // The code takes one neighbour here, as many as the batch has pairs.
        let official = weights(&captions, &images, Variant::Official);
        let neighbours = sum(&[2.0 * 0.4 - 0.1, 2.0 * 0.2 - 0.1]);
        assert!((official[0] - neighbours / (neighbours + 2.0 * 1.0f64.exp())).abs() < 1e-15);
        let neighbours = sum(&[3.0 * 0.2, 3.0 * 0.0]);
        assert!((official[1] - neighbours / (neighbours + (3.0f64 * 0.3).exp())).abs() < 1e-15);
    }

    #[test]
    fn where_no_row_counts_the_weights_are_zero() {
        for variant in [Variant::Paper, Variant::Official] {
            assert_eq!(weights(&[f64::NEG_INFINITY], &[f64::NEG_INFINITY], variant), [0.0, 0.0]);
        }
    }
}
