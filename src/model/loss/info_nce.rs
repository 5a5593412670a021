//! Value of `InfoNCE`, see [`spec::loss::info_nce`](pairloom_spec::loss::info_nce).

use tch::{Kind, Tensor};

use super::objective::{LossFunction, LossInput};
use pairloom_spec::loss::InfoNceLoss;

impl LossFunction for InfoNceLoss {
    fn value(&self, batch: &LossInput<'_>) -> Tensor {
        let compared = batch.negatives.unmasked();
        let logits = match batch.scalars {
            [log_scale] => batch.scores * log_scale.exp(),
            _ => batch.scores / self.temperature,
        };
        let logits = logits.masked_fill(&compared.logical_not(), f64::NEG_INFINITY);
        let all = logits.logsumexp(1, false) + logits.logsumexp(0, false);
        (all / 2.0 - logits.diag(0)).mean(Kind::Double)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{evaluate, learned_gradients};
    use super::*;
    use pairloom_spec::loss::Loss;

    #[test]
    fn two_pairs_cost_the_logarithms_of_their_probabilities() {
        let (value, gradient) = evaluate(&InfoNceLoss { temperature: 0.1, learned: false }, &[0.5, 0.2, 0.3, 0.4]);
        let [a, b, c, d] = [-3.0f64, -1.0, -2.0, -2.0].map(|x| x.exp().ln_1p());
        assert!((value - (a + b + c + d) / 4.0).abs() < 1e-14);
        // Caption 1 of image 0 has e⁻³/(1+e⁻³) of its row and e⁻²/(1+e⁻²) of its column.
        let part = |x: f64| x.exp() / (1.0 + x.exp());
        assert!((gradient[1] - (part(-3.0) + part(-2.0)) / 4.0 / 0.1).abs() < 1e-14);
        assert!(gradient.iter().sum::<f64>().abs() < 1e-12);
        assert_eq!(evaluate(&InfoNceLoss { temperature: 0.1, learned: false }, &[0.3]), (0.0, vec![0.0]));
    }

    /// The derivative in ln(1/τ) is Σ S · ∂L/∂S, since the loss depends on S/τ only.
    #[test]
    fn the_learned_temperature_has_the_gradient_of_scaled_scores() {
        let loss = InfoNceLoss { temperature: 0.1, learned: true };
        let scores = [0.5, 0.2, 0.3, 0.4];
        let (d_scores, d_scalars) = learned_gradients(Loss::InfoNce(loss), &scores);
        let fixed = evaluate(&InfoNceLoss { learned: false, ..loss }, &scores).1;
        assert!(d_scores.iter().zip(&fixed).all(|(a, b)| (a - b).abs() < 1e-13), "{d_scores:?} {fixed:?}");
        let expected: f64 = fixed.iter().zip(scores).map(|(d, score)| d * score).sum();
        assert!(d_scalars.len() == 1 && (d_scalars[0] - expected).abs() < 1e-13, "{d_scalars:?}, expected {expected}");
    }
}
