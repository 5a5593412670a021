//! Weights of HAL from the scores with a memory bank, see
//! [`spec::loss::memory_bank`](pairloom_spec::loss::memory_bank).

use az::SaturatingAs;
use tch::Tensor;

use pairloom_spec::loss::{FormulaVariant, MemoryBankWeights};

/// Scores of a batch of `n` pairs with a memory bank of `M` samples.
#[derive(Debug)]
pub struct MemoryBankScores {
    /// `[n, M]`: image i with caption m of the memory bank; −∞ where it is excluded.
    pub captions: Tensor,
    /// `[n, M]`: caption j with image m of the memory bank; −∞ where it is excluded.
    pub images: Tensor,
}

/// Weights of the scores of a batch, between 0 and 1, without gradient.
#[derive(Debug)]
pub(super) struct PairWeights {
    /// `[n, n]`: Wᵢⱼ of the negatives; the diagonal is not used.
    pub negative: Tensor,
    /// `[n]`: Wᵢᵢ.
    pub positive: Tensor,
}

/// Computes the weights of the scores `[n, n]`.
///
/// Cost: dominated by the selection of the largest among `2·n·M` scores.
pub(super) fn pair_weights(
    scores: &Tensor,
    bank: &MemoryBankScores,
    settings: &MemoryBankWeights,
    variant: FormulaVariant,
) -> PairWeights {
    let matching = scores.detach().diag(0);
    let mut k = bank.captions.size()[1].min(settings.neighbours.saturating_as());
    if variant == FormulaVariant::Official {
        k = k.min(matching.size()[0]);
    }
    let near = |scores: &Tensor| scores.detach().topk(k, 1, true, false).0;
    let (captions, images) = (near(&bank.captions), near(&bank.images));
    let sum = |terms: Tensor| terms.logsumexp(1, false);

    let MemoryBankWeights { alpha, beta, epsilon_positive, epsilon_negative, .. } = settings;
    let (bank_offset, matching_offset, positive_offset) = match variant {
        FormulaVariant::Paper => (-beta * epsilon_negative, -beta * epsilon_positive, -alpha * epsilon_negative),
        FormulaVariant::Official => (-epsilon_negative, 0.0, -alpha * epsilon_positive),
    };
    let (near_images, near_captions) = (sum(&captions * *beta + bank_offset), sum(&images * *beta + bank_offset));
    let around = near_images.unsqueeze(1).logaddexp(&near_captions.unsqueeze(0));
    let own = &matching * *beta + matching_offset;
    let own = own.unsqueeze(1).logaddexp(&own.unsqueeze(0));
    let negative = (around - own).sigmoid();

    let around = sum(Tensor::cat(&[captions, images], 1) * *alpha + positive_offset);
    let positive = (around - (matching - *epsilon_positive) * *alpha).sigmoid();
    PairWeights { negative, positive }
}

#[cfg(test)]
mod tests {
    use super::super::testing::row;
    use super::*;

    const SETTINGS: MemoryBankWeights =
        MemoryBankWeights { neighbours: 2, alpha: 3.0, beta: 2.0, epsilon_positive: 0.2, epsilon_negative: 0.1 };

    /// Negative and positive weight of one pair with score 0.5.
    fn weights(captions: &[f64], images: &[f64], variant: FormulaVariant) -> [f64; 2] {
        let bank = MemoryBankScores { captions: row(captions), images: row(images) };
        let found = pair_weights(&row(&[0.5]), &bank, &SETTINGS, variant);
        [found.negative, found.positive].map(|weight| weight.view(-1).double_value(&[0]))
    }

    /// One pair and a memory bank of three samples. Two of the samples count.
    #[test]
    fn the_nearest_samples_weigh_a_pair() {
        const NONE: f64 = f64::NEG_INFINITY;
        let (captions, images) = ([0.4, 0.1, 0.3], [NONE, 0.2, NONE]);
        let sum = |terms: &[f64]| terms.iter().map(|x| x.exp()).sum::<f64>();

        let paper = weights(&captions, &images, FormulaVariant::Paper);
        let neighbours = sum(&[2.0 * 0.3, 2.0 * 0.2, 2.0 * 0.1]);
        assert!((paper[0] - neighbours / (neighbours + 2.0 * (2.0f64 * 0.3).exp())).abs() < 1e-15);
        let neighbours = sum(&[3.0 * 0.3, 3.0 * 0.2, 3.0 * 0.1]);
        assert!((paper[1] - neighbours / (neighbours + (3.0f64 * 0.3).exp())).abs() < 1e-15);

        // The published code takes one neighbour here, as many as the batch has pairs.
        let official = weights(&captions, &images, FormulaVariant::Official);
        let neighbours = sum(&[2.0 * 0.4 - 0.1, 2.0 * 0.2 - 0.1]);
        assert!((official[0] - neighbours / (neighbours + 2.0 * 1.0f64.exp())).abs() < 1e-15);
        let neighbours = sum(&[3.0 * 0.2, 3.0 * 0.0]);
        assert!((official[1] - neighbours / (neighbours + (3.0f64 * 0.3).exp())).abs() < 1e-15);
    }

    #[test]
    fn without_neighbours_the_weights_are_zero() {
        for variant in [FormulaVariant::Paper, FormulaVariant::Official] {
            assert_eq!(weights(&[f64::NEG_INFINITY], &[f64::NEG_INFINITY], variant), [0.0, 0.0]);
        }
    }
}
