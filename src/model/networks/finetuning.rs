//! Fine-tuning of an image network together with the model that reads its features.
//!
//! libtorch differentiates the network. Batch normalisation uses the stored mean and variance and does not update them,
//! or, as in published code, which puts the whole network in training mode, those of the batch, with which the stored ones
//! drift.

use tch::{Kind, Tensor};

use super::network::ImageNetwork;
use pairloom_base::error::Result;

/// Features of a batch, and the graph for their gradient.
#[derive(Debug)]
pub struct NetworkTape {
    /// L2-normalised features, `[n, width]`.
    pub features: Tensor,
    /// New statistics of batch normalisation, with their numbers in [`ImageNetwork::parameters`]; none if they are kept.
    pub statistics: Vec<(usize, Tensor)>,
    /// Trainable parameters, in the order of [`ImageNetwork::parameters`].
    leaves: Vec<Tensor>,
}

impl ImageNetwork {
    /// Returns true if training updates the parameter of this name: all except the stored statistics of batch
    /// normalisation.
    #[must_use]
    pub fn is_trainable(name: &str) -> bool {
        !name.ends_with(".running_mean") && !name.ends_with(".running_var")
    }

    /// Computes the L2-normalised [features](ImageNetwork::features) of images.
    pub fn normalized_features(&self, images: &Tensor) -> Result<Tensor> {
        let features = self.features(images)?;
        let norms = features.norm_scalaropt_dim(2, [1i64].as_slice(), true).clamp_min(1e-12);
        Ok(features / norms)
    }

    /// Computes the same features with the graph for their gradient. With `uses_batch`, batch normalisation uses the statistics
    /// of these images, and the tape has the stored ones after an update with momentum 0.1.
    pub fn forward_with_tape(&self, images: &Tensor, uses_batch: bool) -> Result<NetworkTape> {
        let leaf = |name: &str, parameter: &Tensor| match (Self::is_trainable(name), uses_batch) {
            // libtorch updates it in place.
            (false, true) => parameter.copy(),
            (is_trainable, _) => parameter.detach().set_requires_grad(is_trainable),
        };
        let shared = self.map_parameters(leaf).with_batch_statistics(uses_batch);
        let features = shared.normalized_features(images)?;
        let (leaves, statistics): (Vec<_>, Vec<_>) =
            shared.parameters().into_iter().enumerate().partition(|(_, (name, _))| Self::is_trainable(name));
        let statistics = statistics.into_iter().filter(|_| uses_batch).map(|(number, (_, tensor))| (number, tensor));
        let leaves = leaves.into_iter().map(|(_, (_, leaf))| leaf).collect();
        Ok(NetworkTape { features, statistics: statistics.collect(), leaves })
    }
}

impl NetworkTape {
    /// Computes the gradients in the trainable parameters from that in the features, `[n, width]`.
    #[must_use]
    pub fn backward(self, d: &Tensor) -> Vec<Tensor> {
        let product = (&self.features * d).sum(None::<Kind>);
        Tensor::run_backward(&[product], &self.leaves, false, false)
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::networks::clip_golden_tests::SMALL;
    use crate::networks::testing::{formula_image, formula_weights};
    use pairloom_spec::networks::{Layer, Network};

    /// Change of a sum of the features along a direction of a parameter, beside its gradient, in f64.
    #[test]
    fn gradients_are_those_of_differences() {
        let networks = [
            (Network::SqueezeNet1_1.backbone(), 64),
            (Network::MobileNetV2.backbone(), 64),
            (Network::ResNet18.backbone(), 64),
            (Network::InceptionResNetV2.backbone(), 80),
            (SMALL.architecture(&Layer::Gelu), 48),
            (SMALL.architecture(&Layer::QuickGelu), 48),
        ];
        for (architecture, side) in networks {
            tch::manual_seed(1);
            let weights = formula_weights(architecture.parameters());
            let drawn = ImageNetwork::from_file(architecture, &weights, Device::Cpu).unwrap();
            let network = drawn.map_parameters(|_, parameter| parameter.to_kind(Kind::Double));
            let images = Tensor::randn([2, 3, side, side], (Kind::Double, Device::Cpu));
            let tape = network.forward_with_tape(&images, false).unwrap();
            assert!(tape.statistics.is_empty());
            let d = Tensor::randn_like(&tape.features);
            let value = |network: &ImageNetwork| {
                let features = tch::no_grad(|| network.normalized_features(&images)).unwrap();
                (features * &d).sum(None::<Kind>).double_value(&[])
            };
            let trainable = network.parameters().into_iter().filter(|(name, _)| ImageNetwork::is_trainable(name));
            let trainable: Vec<(String, Tensor)> = trainable.collect();
            let gradients = tape.backward(&d);
            assert_eq!(gradients.len(), trainable.len());
            for place in [0, trainable.len() / 2, trainable.len() - 1] {
                let (name, parameter) = &trainable[place];
                let direction = Tensor::randn_like(parameter);
                // A longer step passes kinks of ReLU.
                let step = 1e-8;
                let moved = |by: f64| {
                    value(&network.map_parameters(|other, tensor| {
                        if other == name { tensor + &direction * by } else { tensor.shallow_clone() }
                    }))
                };
                let difference = (moved(step) - moved(-step)) / (2.0 * step);
                let gradient = (&gradients[place] * &direction).sum(None::<Kind>).double_value(&[]);
                let scale = difference.abs().max(1e-3);
                assert!((difference - gradient).abs() < 1e-3 * scale, "{name}: {gradient}, expected {difference}");
            }
        }
    }

    #[derive(serde::Deserialize)]
    struct BatchStatisticsGolden {
        features: Vec<Vec<f32>>,
        statistics: std::collections::BTreeMap<String, Vec<f32>>,
        gradients: std::collections::BTreeMap<String, Vec<f64>>,
    }

    /// `tests/golden/batch_statistics.py` wrote the values of torchvision in training mode.
    #[test]
    fn statistics_of_a_batch_equal_torchvision() {
        let golden: BatchStatisticsGolden =
            serde_json::from_value(test_data::golden_json("batch_statistics.json")).unwrap();
        let architecture = Network::ResNet18.backbone();
        let weights = formula_weights(architecture.parameters());
        let network = ImageNetwork::from_file(architecture, &weights, Device::Cpu).unwrap();
        let network = network.map_parameters(|_, parameter| parameter.to_kind(Kind::Double));
        let mut pixels = Vec::new();
        for (width, height) in [(64, 64), (80, 70), (70, 90)] {
            let rgb = formula_image(width, height).rgb;
            // The bottom right square of 64 pixels, channels first, in 0..1.
            let (top, left) = (height - 64, width - 64);
            for channel in 0..3 {
                let place = |i: usize| ((top + i / 64) * width + left + i % 64) * 3 + channel;
                pixels.extend((0..64 * 64).map(|i| f64::from(rgb[place(i)]) / 255.0));
            }
        }
        let images = Tensor::from_slice(&pixels).view([3, 3, 64, 64]);
        let tape = network.forward_with_tape(&images, true).unwrap();
        let near = |got: f64, expected: f64| (got - expected).abs() <= 1e-6 * expected.abs().max(1e-2);
        for (row, expected) in (0..).zip(&golden.features) {
            for (column, &expected) in (0..).zip(expected) {
                let got = tape.features.double_value(&[row, column]);
                assert!(near(got, f64::from(expected)), "feature {row}, {column}: {got}, expected {expected}");
            }
        }
        let names: Vec<String> = network.parameters().into_iter().map(|(name, _)| name).collect();
        assert_eq!(tape.statistics.len(), names.iter().filter(|name| name.contains(".running_")).count());
        for (name, expected) in &golden.statistics {
            let named = |(number, tensor): &(usize, Tensor)| (&names[*number] == name).then(|| tensor.copy());
            let found = tape.statistics.iter().find_map(named).expect("statistics");
            for (place, &expected) in (0..).zip(expected) {
                let got = found.double_value(&[place]);
                assert!(near(got, f64::from(expected)), "{name} {place}: {got}, expected {expected}");
            }
        }
        // The stored ones are changed by the step that uses them.
        let kept = network.parameters().into_iter().find(|(name, _)| name == "bn1.running_mean").expect("statistics");
        let changed = tape.statistics.iter().find(|(number, _)| names[*number] == "bn1.running_mean").expect("them");
        assert_ne!(kept.1, changed.1);
        let d = Tensor::arange(3 * 512, (Kind::Double, Device::Cpu)).view([3, 512]).sin();
        let gradients = tape.backward(&d);
        let trainable: Vec<&String> = names.iter().filter(|name| ImageNetwork::is_trainable(name)).collect();
        for (name, expected) in &golden.gradients {
            let number = trainable.iter().position(|known| *known == name).expect("a parameter");
            let got = gradients[number].view(-1);
            let scale = expected.iter().fold(0.0f64, |most, value| most.max(value.abs()));
            for (place, &expected) in (0..).zip(expected) {
                let got = got.double_value(&[place]);
                assert!((got - expected).abs() < 1e-6 * scale, "{name} {place}: {got}, expected {expected}");
            }
        }
        // One value of a channel has no variance: the stored statistics are used and kept.
        let small = images.narrow(0, 0, 1).narrow(2, 0, 32).narrow(3, 0, 32);
        let tape = network.forward_with_tape(&small, true).unwrap();
        assert!(tape.statistics.iter().all(|(_, tensor)| tensor.isfinite().all().int64_value(&[]) == 1));
    }
}
