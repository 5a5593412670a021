//! Fine-tuning of an image network together with the model that reads its features.
//!
//! libtorch differentiates the network. Batch normalisation uses the stored mean and variance and does not update them.
//! Published code puts the whole network in training mode instead, so mean and variance drift with the batches even if
//! nothing else is trained.

use tch::{Kind, Tensor};

use super::network::ImageNetwork;
use crate::error::Result;

/// Features of a batch, and the graph for their gradient.
#[derive(Debug)]
pub struct NetworkTape {
    /// L2-normalised features, `[n, width]`.
    pub features: Tensor,
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
    ///
    /// # Errors
    /// As [`ImageNetwork::features`].
    pub fn normalized_features(&self, images: &Tensor) -> Result<Tensor> {
        let features = self.features(images)?;
        let norms = features.norm_scalaropt_dim(2, [1i64].as_slice(), true).clamp_min(1e-12);
        Ok(features / norms)
    }

    /// Computes the same features with the graph for their gradient.
    ///
    /// # Errors
    /// As [`ImageNetwork::features`].
    pub fn forward_with_tape(&self, images: &Tensor) -> Result<NetworkTape> {
        let shared =
            self.map_parameters(|name, parameter| parameter.detach().set_requires_grad(Self::is_trainable(name)));
        let features = shared.normalized_features(images)?;
        let leaves = shared.parameters().into_iter().filter(|(name, _)| Self::is_trainable(name));
        Ok(NetworkTape { features, leaves: leaves.map(|(_, leaf)| leaf).collect() })
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
    use crate::model::networks::Network;
    use crate::model::networks::clip_golden_tests::SMALL;
    use crate::model::networks::layer::Layer;
    use crate::model::networks::testing::formula_weights;

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
            let tape = network.forward_with_tape(&images).unwrap();
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
                assert!((difference - gradient).abs() < 1e-3 * scale, "{name}: {gradient}, wanted {difference}");
            }
        }
    }
}
