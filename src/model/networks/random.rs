//! Random initial weights, from the distributions of torchvision.
//!
//! The generator is [`Rng`], so a seed gives the same weights with every version of libtorch. Parameter `i` of a network
//! uses the stream (seed, i).

use pairloom_kernels::random::Rng;
use pairloom_spec::networks::{NetworkInit, NetworkParameterSpec};

/// Draws the values of parameter `index`, row-major.
pub(super) fn draw(parameter: &NetworkParameterSpec, seed: u64, index: u64) -> Vec<f32> {
    let mut rng = Rng::new(seed, &[index]);
    let count = parameter.shape.iter().product();
    let fan_out = parameter.shape.first().unwrap_or(&1) * parameter.shape.iter().skip(2).product::<usize>();
    match parameter.init {
        NetworkInit::Constant(value) => vec![value; count],
        NetworkInit::UniformFanIn(gain) => {
            let bound = (gain / float(parameter.fan_in)).sqrt();
            (0..count).map(|_| to_f32((2.0 * rng.uniform() - 1.0) * bound)).collect()
        }
        NetworkInit::NormalFanOut => normal(&mut rng, (2.0 / float(fan_out)).sqrt(), count),
        NetworkInit::Normal(deviation) => normal(&mut rng, deviation, count),
    }
}

/// Draws normal random numbers.
fn normal(rng: &mut Rng, deviation: f64, count: usize) -> Vec<f32> {
    let mut values = Vec::with_capacity(count + 1);
    while values.len() < count {
        values.extend(rng.normal_pair(deviation).map(to_f32));
    }
    values.truncate(count);
    values
}

#[expect(clippy::cast_precision_loss, reason = "fans are far below 2^53")]
fn float(count: usize) -> f64 {
    count as f64
}

#[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
fn to_f32(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_spec::networks::Network;

    fn moments(values: &[f32]) -> (f64, f64, f64) {
        let n = float(values.len());
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let variance = values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n;
        let largest = values.iter().map(|&v| f64::from(v).abs()).fold(0.0, f64::max);
        (mean, variance.sqrt(), largest)
    }

    fn drawn(parameters: &[NetworkParameterSpec], name: &str) -> Vec<f32> {
        let index = parameters.iter().position(|parameter| parameter.name == name).unwrap();
        draw(&parameters[index], 7, u64::try_from(index).unwrap())
    }

    /// Standard deviations and bounds derived by hand from torchvision's `__init__`.
    #[test]
    fn deviations_and_bounds_are_those_of_torchvision() {
        let parameters = Network::ResNet18.architecture().parameters();
        // √(2 / (128 · 3 · 3)).
        let (mean, deviation, _) = moments(&drawn(&parameters, "layer2.0.conv1.weight"));
        assert!(mean.abs() < 1e-3 && (deviation / 0.041_667 - 1.0).abs() < 0.02, "{mean} {deviation}");
        // ±1 / √512, uniform: deviation bound / √3.
        let (_, deviation, largest) = moments(&drawn(&parameters, "fc.weight"));
        assert!(largest <= 0.044_195 && (deviation / 0.025_516 - 1.0).abs() < 0.02, "{deviation} {largest}");
        assert_eq!(drawn(&parameters, "bn1.running_var"), vec![1.0; 64]);

        let parameters = Network::SqueezeNet1_0.architecture().parameters();
        // ±√(6 / (3 · 7 · 7)).
        let (_, deviation, largest) = moments(&drawn(&parameters, "features.0.weight"));
        assert!(largest <= 0.202_031 && (deviation / 0.116_642 - 1.0).abs() < 0.02, "{deviation} {largest}");
        let (_, deviation, _) = moments(&drawn(&parameters, "classifier.1.weight"));
        assert!((deviation / 0.01 - 1.0).abs() < 0.02, "{deviation}");
        assert_eq!(drawn(&parameters, "classifier.1.bias"), vec![0.0; 1000]);
    }

    #[test]
    fn weights_are_a_function_of_the_seed() {
        let parameters = Network::SqueezeNet1_0.architecture().parameters();
        let draw = |seed, index| draw(&parameters[index], seed, u64::try_from(index).unwrap());
        assert_eq!(draw(1, 0), draw(1, 0));
        assert_ne!(draw(1, 0), draw(2, 0));
    }
}
