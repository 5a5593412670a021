//! Weights of HAL from a memory bank, on tensors (Liu et al., AAAI 2020, equation 6).

use tch::Tensor;

use super::settings::Variant;
use crate::kernels::loss::BankWeights;

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
