//! Value of Sigmoid loss, see [`spec::loss::sigmoid`](pairloom_spec::loss::sigmoid).

use tch::{Kind, Tensor};

use super::objective::{LossFunction, LossInput};
use pairloom_spec::loss::SigmoidLoss;

impl LossFunction for SigmoidLoss {
    fn value(&self, batch: &LossInput<'_>) -> Tensor {
        let logits = match batch.scalars {
            [log_temperature, bias] => batch.scores * log_temperature.exp() + bias,
            _ => batch.scores * self.temperature + self.bias,
        };
        let signed_logits = logits.where_self(&batch.negatives.is_matching, &-&logits);
        let left_out = batch.negatives.unmasked().logical_not();
        -signed_logits.log_sigmoid().masked_fill(&left_out, 0.0).sum(Kind::Double) / batch.scores.size()[0]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{evaluate, evaluate_masked, learned_gradients};
    use super::*;
    use pairloom_spec::loss::Loss;

    /// By hand, with t = 2 and b = −1: logits 0.2, −0.6 / −0.4, −0.2. The signs of those of negatives are flipped.
    #[test]
    fn two_pairs_are_four_binary_classifications() {
        let loss = SigmoidLoss { temperature: 2.0, bias: -1.0, learned: false };
        let scores = [0.6, 0.2, 0.3, 0.4];
        let cost = |logit: f64| (-logit).exp().ln_1p();
        let (value, gradient) = evaluate(&loss, &scores);
        assert!((value - (cost(0.2) + cost(0.6) + cost(0.4) + cost(-0.2)) / 2.0).abs() < 1e-15, "{value}");
        // The gradient is t/n times the error of the predicted probability.
        let probability = |logit: f64| 1.0 / (1.0 + (-logit).exp());
        let expected = [probability(0.2) - 1.0, probability(-0.6), probability(-0.4), probability(-0.2) - 1.0];
        assert!(gradient.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 1e-15), "{gradient:?}");

        let (value, gradient) = evaluate_masked(&loss, &scores, &[false, true, true, false]);
        assert!((value - f64::midpoint(cost(0.2), cost(-0.2))).abs() < 1e-15, "{value}");
        assert_eq!(gradient[1..3], [0.0, 0.0]);
    }

    /// By hand, as above: the derivative in b is the mean over images of all errors, that in ln t also has the factor
    /// t · S of each.
    #[test]
    fn learned_temperature_and_bias_have_the_gradients_of_the_errors() {
        let loss = SigmoidLoss { temperature: 2.0, bias: -1.0, learned: true };
        let scores = [0.6, 0.2, 0.3, 0.4];
        let probability = |logit: f64| 1.0 / (1.0 + (-logit).exp());
        let errors = [probability(0.2) - 1.0, probability(-0.6), probability(-0.4), probability(-0.2) - 1.0];
        let (d_scores, d_scalars) = learned_gradients(Loss::Sigmoid(loss), &scores);
        assert_eq!(d_scores, evaluate(&SigmoidLoss { learned: false, ..loss }, &scores).1);
        let d_log_temperature = errors.iter().zip(scores).map(|(error, score)| error * 2.0 * score).sum::<f64>() / 2.0;
        for (got, expected) in d_scalars.iter().zip([d_log_temperature, errors.iter().sum::<f64>() / 2.0]) {
            assert!((got - expected).abs() < 1e-15, "{d_scalars:?}, expected {expected}");
        }
        assert_eq!(d_scalars.len(), 2);
    }
}
