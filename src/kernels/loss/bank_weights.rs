//! Weights of HAL from a memory bank: how dense it is around a pair, seen from a sample of the whole training set (Liu, Ye,
//! Wang, Li, "HAL: Improved Text-Image Matching by Mitigating Visual Semantic Hubs", AAAI 2020, equation 6).

use super::batch::{log_sum_exp, nearest};
use super::{Batch, Variant};

/// How the rows of a memory bank weigh the pairs of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BankWeights {
    /// Rows of the bank nearest to an image or caption that count, k. The paper does not give it; 250 is the published code's.
    pub neighbours: usize,
    /// Temperature of the weights of matching pairs, α.
    pub alpha: f64,
    /// Temperature of the weights of negatives, β.
    pub beta: f64,
    /// Margin of matching pairs, ε₁.
    pub epsilon_positive: f64,
    /// Margin of the bank's rows, ε₂.
    pub epsilon_negative: f64,
}

impl Default for BankWeights {
    /// Those of paper and code.
    fn default() -> Self {
        Self { neighbours: 250, alpha: 40.0, beta: 40.0, epsilon_positive: 0.2, epsilon_negative: 0.1 }
    }
}

/// Scores of a batch of `n` pairs with a bank of `rows` pairs; −∞ where a row does not count.
#[derive(Debug, Clone, Copy)]
pub struct Bank<'b> {
    /// `n × rows`: image `i` with caption `m` of the bank.
    pub captions: &'b [f64],
    /// `n × rows`: caption `j` with image `m` of the bank.
    pub images: &'b [f64],
    /// Pairs in the bank.
    pub rows: usize,
}

/// Weights of the scores of a batch, between 0 and 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// `n × n`: Wᵢⱼ of the negatives; what stands on the diagonal is not used.
    pub negative: Vec<f64>,
    /// `n`: Wᵢᵢ.
    pub positive: Vec<f64>,
}

/// Weights of the negatives, Wᵢⱼ = N/(N + e^{β(Sᵢᵢ−ε₁)} + e^{β(Sⱼⱼ−ε₁)}) with N = Σ_{K₁(i)} e^{β(s−ε₂)} + Σ_{K₂(j)} e^{β(s−ε₂)},
/// and of the matching pairs, Wᵢᵢ = 1 − q/(q + Σ_{K₁(i)} e^{α(s−ε₂)} + Σ_{K₂(i)} e^{α(s−ε₂)}) with q = e^{α(Sᵢᵢ−ε₁)}.
///
/// K₁(i) holds the `neighbours` captions of the bank that are nearest to image i, K₂(j) the images nearest to caption j (the
/// paper prints the set of texts for both). Of fewer rows all count; where none does the weight is 0.
///
/// Published code ([`Variant::Official`]) differs in three ways, and in the number of neighbours:
/// - the margin of the bank's rows stands outside of the temperature in Wᵢⱼ: e^{βs−ε₂};
/// - Wᵢⱼ has no ε₁: e^{βSᵢᵢ}. With this and the former, the odds of neighbours against the matching pairs are e^{−ε₂} = 0.90
///   times what the scores alone say, in the paper e^{β(ε₁−ε₂)} = 54.6 times;
/// - Wᵢᵢ has ε₁ in place of ε₂, so the margins cancel;
/// - no more neighbours than the batch has pairs.
///
/// Cost: n·rows·log(rows) steps.
///
/// # Panics
/// The scores of the bank are not `n × rows`.
#[must_use]
pub fn bank_weights(batch: &Batch<'_>, bank: &Bank<'_>, settings: &BankWeights, variant: Variant) -> Weights {
    let n = batch.pairs;
    assert!(bank.captions.len() == n * bank.rows && bank.images.len() == n * bank.rows, "scores of the bank");
    let BankWeights { neighbours, alpha, beta, epsilon_positive, epsilon_negative } = *settings;
    let k = if variant == Variant::Official { neighbours.min(n) } else { neighbours };

    // ln Σ eᶠ⁽ˢ⁾ over the nearest rows of each query.
    let density = |scores: &[f64], term: &dyn Fn(f64) -> f64| -> Vec<f64> {
        let of = |query: usize| {
            let scores = &scores[query * bank.rows..][..bank.rows];
            log_sum_exp(
                nearest((0..bank.rows).collect(), k, |row| scores[row]).into_iter().map(|row| term(scores[row])),
            )
        };
        (0..n).map(of).collect()
    };
    let (negative_term, matching_term): (&dyn Fn(f64) -> f64, &dyn Fn(f64) -> f64) = match variant {
        Variant::Paper => (&|s| beta * (s - epsilon_negative), &|s| beta * (s - epsilon_positive)),
        Variant::Official => (&|s| beta * s - epsilon_negative, &|s| beta * s),
    };
    let (captions, images) = (density(bank.captions, negative_term), density(bank.images, negative_term));
    let weigh = |place: usize| {
        let (i, j) = (place / n, place % n);
        let matching = [i, j].map(|pair| matching_term(batch.matching(pair)));
        share(log_sum_exp([captions[i], images[j]].into_iter()), log_sum_exp(matching.into_iter()))
    };
    let negative = (0..n * n).map(weigh).collect();

    let epsilon = if variant == Variant::Official { epsilon_positive } else { epsilon_negative };
    let term = |s: f64| alpha * (s - epsilon);
    let (captions, images) = (density(bank.captions, &term), density(bank.images, &term));
    let positive = (0..n).map(|i| {
        share(log_sum_exp([captions[i], images[i]].into_iter()), alpha * (batch.matching(i) - epsilon_positive))
    });
    Weights { negative, positive: positive.collect() }
}

/// eᵃ / (eᵃ + eᵇ).
fn share(a: f64, b: f64) -> f64 {
    1.0 / (1.0 + (b - a).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: BankWeights =
        BankWeights { neighbours: 2, alpha: 3.0, beta: 2.0, epsilon_positive: 0.2, epsilon_negative: 0.1 };

    /// One pair with score 0.5 and a bank of three rows, of which two count.
    #[test]
    fn one_pair_by_hand() {
        let batch = Batch::new(&[0.5], 1);
        let bank = Bank { captions: &[0.4, 0.1, 0.3], images: &[f64::NEG_INFINITY, 0.2, f64::NEG_INFINITY], rows: 3 };
        let sum = |terms: &[f64]| terms.iter().map(|x| x.exp()).sum::<f64>();

        let paper = bank_weights(&batch, &bank, &SETTINGS, Variant::Paper);
        let neighbours = sum(&[2.0 * 0.3, 2.0 * 0.2, 2.0 * 0.1]);
        assert!((paper.negative[0] - neighbours / (neighbours + 2.0 * (2.0f64 * 0.3).exp())).abs() < 1e-15);
        let neighbours = sum(&[3.0 * 0.3, 3.0 * 0.2, 3.0 * 0.1]);
        assert!((paper.positive[0] - neighbours / (neighbours + (3.0f64 * 0.3).exp())).abs() < 1e-15);

        // The code takes one neighbour here, as many as the batch has pairs.
        let official = bank_weights(&batch, &bank, &SETTINGS, Variant::Official);
        let neighbours = sum(&[2.0 * 0.4 - 0.1, 2.0 * 0.2 - 0.1]);
        assert!((official.negative[0] - neighbours / (neighbours + 2.0 * 1.0f64.exp())).abs() < 1e-15);
        let neighbours = sum(&[3.0 * 0.2, 3.0 * 0.0]);
        assert!((official.positive[0] - neighbours / (neighbours + (3.0f64 * 0.3).exp())).abs() < 1e-15);
    }

    #[test]
    fn where_no_row_counts_the_weights_are_zero() {
        let batch = Batch::new(&[0.5], 1);
        let bank = Bank { captions: &[f64::NEG_INFINITY], images: &[f64::NEG_INFINITY], rows: 1 };
        let nothing = Weights { negative: vec![0.0], positive: vec![0.0] };
        for variant in [Variant::Paper, Variant::Official] {
            assert_eq!(bank_weights(&batch, &bank, &SETTINGS, variant), nothing);
        }
    }
}
