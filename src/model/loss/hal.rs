//! Value of HAL, see [`spec::loss::hal`](pairloom_spec::loss::hal), and its weights from the scores with a memory bank, see
//! [`spec::loss::memory_bank`](pairloom_spec::loss::memory_bank).

use az::SaturatingAs;
use tch::{Kind, Tensor};

use super::objective::{LossFunction, LossInput};
use pairloom_spec::loss::hal::TANGENT;
use pairloom_spec::loss::{FormulaVariant, MaxLoss, MemoryBankWeights};

use pairloom_spec::loss::HalLoss;

impl LossFunction for HalLoss {
    fn value(&self, batch: &LossInput<'_>) -> Tensor {
        let weights =
            batch.memory_bank.map(|(settings, bank)| pair_weights(batch.scores, bank, settings, self.variant));
        let value = weighted(self, batch, weights.as_ref());
        match self.max {
            Some(margin) => value + MaxLoss { margin }.value(batch) / batch.scores.size()[0],
            None => value,
        }
    }
}

/// Value without MAX, with these weights.
fn weighted(loss: &HalLoss, batch: &LossInput<'_>, weights: Option<&PairWeights>) -> Tensor {
    let HalLoss { gamma, epsilon, variant, .. } = *loss;
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
    use super::super::objective::Negatives;
    use super::super::testing::{assert_central_differences, differentiate, evaluate, random, row};
    use super::*;

    /// Two pairs with γ = 2, ε = 0.5, computed by hand.
    #[test]
    fn value_and_gradient_of_two_pairs_by_hand() {
        let scores = [0.5, 0.2, 0.3, -0.4];
        let [right, below] = [0.2, 0.3].map(|s: f64| (2.0 * (s - 0.5)).exp());
        let expected = |offset: f64, last: f64| {
            let push = (offset + right).ln() + (offset + below).ln();
            // Each negative counts in a row and in a column.
            (2.0 * push / 2.0 - 1.5f64.ln() - last) / 2.0
        };
        let loss = HalLoss { gamma: 2.0, epsilon: 0.5, ..HalLoss::default() };
        let paper = evaluate(&loss, &scores);
        assert!((paper.0 - expected(1.0, 0.6f64.ln())).abs() < 1e-14);
        assert!((paper.1[1] - right / (1.0 + right)).abs() < 1e-14);
        assert!((paper.1[3] + 0.5 / 0.6).abs() < 1e-14);

        let official = evaluate(&HalLoss { variant: FormulaVariant::Official, ..loss }, &scores);
        let offset = 1.0 + (-1.0f64).exp();
        assert!((official.0 - expected(offset, 0.0)).abs() < 1e-14);
        assert!((official.1[2] - below / (offset + below)).abs() < 1e-14);
        assert_eq!(official.1[3], 0.0);
    }

    #[test]
    fn very_low_matching_scores_have_a_finite_value_and_gradient() {
        for (score, expected) in [(-1.0, -(0.01f64.ln() - 1.0)), (-2.5, -(0.01f64.ln() - 151.0))] {
            let (value, gradient) = evaluate(&HalLoss::default(), &[score]);
            assert!((value - expected).abs() < 1e-9, "{value}");
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
                weighted(&loss, &LossInput { scores, ..batch }, Some(&weights)).double_value(&[])
            });
        }
    }

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
