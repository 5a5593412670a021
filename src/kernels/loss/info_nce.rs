//! `InfoNCE` in both directions: the yardstick of larger models (van den Oord, Li, Vinyals, "Representation Learning with
//! Contrastive Predictive Coding", 2018; symmetric as in Radford et al., "CLIP", ICML 2021).

use super::batch::log_sum_exp;
use super::{Batch, Loss};

/// (1/2n) Σᵢ { ln Σⱼ e^{(Sᵢⱼ−Sᵢᵢ)/τ} + ln Σⱼ e^{(Sⱼᵢ−Sᵢᵢ)/τ} }, where j goes over the negatives and the pair itself.
///
/// The temperature τ is a setting, not learned. Where all scores are equal the value is ln n; for one pair it is 0.
/// Cost: n² steps.
#[must_use]
pub fn info_nce(batch: &Batch<'_>, temperature: f64) -> Loss {
    let n = batch.pairs;
    #[expect(clippy::cast_precision_loss, reason = "a batch has far fewer than 2^53 pairs")]
    let share = 0.5 / n as f64;
    let mut loss = Loss::zero(n);
    for anchor in batch.images().chain(batch.captions()) {
        let places = std::iter::once(anchor.matching).chain(anchor.negatives.iter().copied());
        let all = log_sum_exp(places.clone().map(|place| batch.scores[place] / temperature));
        loss.value += share * (all - batch.scores[anchor.matching] / temperature);
        for place in places {
            loss.gradient[place] += share * (batch.scores[place] / temperature - all).exp() / temperature;
        }
        loss.gradient[anchor.matching] -= share / temperature;
    }
    loss
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_pairs_by_hand() {
        let loss = info_nce(&Batch::new(&[0.5, 0.2, 0.3, 0.4], 2), 0.1);
        let [a, b, c, d] = [-3.0f64, -1.0, -2.0, -2.0].map(|x| x.exp().ln_1p());
        assert!((loss.value - (a + b + c + d) / 4.0).abs() < 1e-15);
        // Caption 1 of image 0 has e⁻³/(1+e⁻³) of its row and e⁻²/(1+e⁻²) of its column.
        let part = |x: f64| x.exp() / (1.0 + x.exp());
        assert!((loss.gradient[1] - (part(-3.0) + part(-2.0)) / 4.0 / 0.1).abs() < 1e-14);
        assert!(loss.gradient.iter().sum::<f64>().abs() < 1e-12);
        assert_eq!(info_nce(&Batch::new(&[0.3], 1), 0.1), Loss { value: 0.0, gradient: vec![0.0] });
    }
}
