//! HAL, the hubness-aware loss: every negative counts by its share among all, and by the density around it (Liu, Ye, Wang,
//! Li, "HAL: Improved Text-Image Matching by Mitigating Visual Semantic Hubs", AAAI 2020, equation 7).

use super::batch::log_sum_exp;
use super::{Batch, Loss, Variant, Weights};

/// Below this, ln(x) goes on along its tangent.
pub const TANGENT: f64 = 0.01;

/// (1/n) Σᵢ { ln(1 + Σ_{m≠i} e^{γ·Wₘᵢ·(Sₘᵢ−ε)}) / γ + ln(1 + Σ_{m≠i} e^{γ·Wᵢₘ·(Sᵢₘ−ε)}) / γ − ln(1 + Wᵢᵢ·Sᵢᵢ) }.
///
/// The weights are those of [`bank_weights`](super::bank_weights()), all 1 without. They are constants of a step: the code
/// detaches them, and the paper's gradient (equation 8) treats them so.
///
/// The last logarithm has no value where Wᵢᵢ·Sᵢᵢ ≤ −1, which cosines hardly reach and order violations do: for
/// 1 + Wᵢᵢ·Sᵢᵢ < [`TANGENT`] it is continued along its tangent.
///
/// Published code ([`Variant::Official`]) differs in five ways. Three are in the weights, where they are described. The other
/// two:
/// - The diagonal of the weights is 0, so the matching pair stands among its own negatives as e⁰: the 1 beside the sums of
///   negatives becomes 2. (Without weights its score there is 0, and 1 becomes 1 + e^{−γε}, 1.0001 with the paper's settings.)
/// - Other captions of the same image are negatives, in the batch and in the bank. Here that is the caller's choice, by the
///   mask of the batch and by −∞ in the scores of the bank.
///
/// Nor does it pull a matching pair with a score below 0: its last term is ln(1 + \[Wᵢᵢ·Sᵢᵢ\]₊), so that a model with order
/// violations, which has no other scores, learns from negatives alone.
///
/// A single pair gives −ln(1 + W₀₀·S₀₀) (paper): it is pulled, nothing is pushed. Cost: n² steps.
///
/// # Panics
/// The weights are not of as many pairs.
#[must_use]
pub fn hal(batch: &Batch<'_>, gamma: f64, epsilon: f64, variant: Variant, weights: Option<&Weights>) -> Loss {
    let n = batch.pairs;
    if let Some(weights) = weights {
        assert!(weights.negative.len() == n * n && weights.positive.len() == n, "weights of {n} pairs");
    }
    let weight = |place: usize| weights.map_or(1.0, |weights| weights.negative[place]);
    let offset = match (variant, weights) {
        (Variant::Paper, _) => 0.0,
        (Variant::Official, None) => (-gamma * epsilon).exp().ln_1p(),
        (Variant::Official, Some(_)) => 2.0f64.ln(),
    };
    #[expect(clippy::cast_precision_loss, reason = "a batch has far fewer than 2^53 pairs")]
    let share = 1.0 / n as f64;

    let mut loss = Loss::zero(n);
    for anchor in batch.images().chain(batch.captions()) {
        let exponent = |place: usize| gamma * weight(place) * (batch.scores[place] - epsilon);
        let all = log_sum_exp(std::iter::once(offset).chain(anchor.negatives.iter().map(|&place| exponent(place))));
        loss.value += share * all / gamma;
        for &place in &anchor.negatives {
            loss.gradient[place] += share * weight(place) * (exponent(place) - all).exp();
        }
    }
    for pair in 0..n {
        let weight = weights.map_or(1.0, |weights| weights.positive[pair]);
        let (value, slope) = pull(weight * batch.matching(pair), variant);
        loss.value -= share * value;
        loss.gradient[pair * n + pair] -= share * weight * slope;
    }
    loss
}

/// ln(1 + x) as it stands in the objective, and its derivative.
fn pull(x: f64, variant: Variant) -> (f64, f64) {
    match variant {
        Variant::Official if x <= 0.0 => (0.0, 0.0),
        Variant::Paper if 1.0 + x < TANGENT => (TANGENT.ln() + (1.0 + x) / TANGENT - 1.0, 1.0 / TANGENT),
        _ => (x.ln_1p(), 1.0 / (1.0 + x)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pairs with γ = 2, ε = 0.5, written out.
    #[test]
    fn two_pairs_by_hand() {
        let batch = Batch::new(&[0.5, 0.2, 0.3, -0.4], 2);
        let [right, below] = [0.2, 0.3].map(|s: f64| (2.0 * (s - 0.5)).exp());
        let wanted = |offset: f64, last: f64| {
            let push = (offset + right).ln() + (offset + below).ln();
            // Each negative is one of a row and of a column.
            (2.0 * push / 2.0 - 1.5f64.ln() - last) / 2.0
        };
        let paper = hal(&batch, 2.0, 0.5, Variant::Paper, None);
        assert!((paper.value - wanted(1.0, 0.6f64.ln())).abs() < 1e-15);
        assert!((paper.gradient[1] - right / (1.0 + right)).abs() < 1e-15);
        assert!((paper.gradient[3] + 0.5 / 0.6).abs() < 1e-15);

        let official = hal(&batch, 2.0, 0.5, Variant::Official, None);
        let offset = 1.0 + (-1.0f64).exp();
        assert!((official.value - wanted(offset, 0.0)).abs() < 1e-15);
        assert!((official.gradient[2] - below / (offset + below)).abs() < 1e-15);
        assert_eq!(official.gradient[3], 0.0);
    }

    #[test]
    fn a_pair_that_does_not_fit_at_all_has_a_value_and_is_pulled() {
        for (score, value) in [(-1.0, -(0.01f64.ln() - 1.0)), (-2.5, -(0.01f64.ln() - 151.0))] {
            let loss = hal(&Batch::new(&[score], 1), 30.0, 0.3, Variant::Paper, None);
            assert!((loss.value - value).abs() < 1e-9, "{}", loss.value);
            assert!((loss.gradient[0] + 100.0).abs() < 1e-9);
        }
    }
}
