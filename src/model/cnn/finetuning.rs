//! Fine-tuning of an image network together with the model that reads its features.
//!
//! libtorch differentiates the CNN. Batch normalisation uses the stored mean and variance and does not update them.
//! Published code puts the whole network in training mode instead, so mean and variance drift with the batches even if
//! nothing else is trained.

use tch::{Kind, Tensor};

use super::network::Cnn;
use crate::error::Result;

/// Features of a batch, and the graph for their gradient.
#[derive(Debug)]
pub struct CnnTape {
    /// L2-normalised features, `[n, width]`.
    pub features: Tensor,
    /// Trainable parameters, in the order of [`Cnn::parameters`].
    leaves: Vec<Tensor>,
}

impl Cnn {
    /// Returns true if training updates the parameter of this name: all except the stored statistics of batch
    /// normalisation.
    #[must_use]
    pub fn is_trainable(name: &str) -> bool {
        !name.ends_with(".running_mean") && !name.ends_with(".running_var")
    }

    /// Computes the L2-normalised [features](Cnn::features) of images.
    ///
    /// # Errors
    /// As [`Cnn::features`].
    pub fn normalized_features(&self, images: &Tensor) -> Result<Tensor> {
        let features = self.features(images)?;
        let norms = features.norm_scalaropt_dim(2, [1i64].as_slice(), true).clamp_min(1e-12);
        Ok(features / norms)
    }

    /// Computes the same features with the graph for their gradient.
    ///
    /// # Errors
    /// As [`Cnn::features`].
    pub fn forward_with_tape(&self, images: &Tensor) -> Result<CnnTape> {
        let shared =
            self.map_parameters(|name, parameter| parameter.detach().set_requires_grad(Self::is_trainable(name)));
        let features = shared.normalized_features(images)?;
        let leaves = shared.parameters().into_iter().filter(|(name, _)| Self::is_trainable(name));
        Ok(CnnTape { features, leaves: leaves.map(|(_, leaf)| leaf).collect() })
    }
}

impl CnnTape {
    /// Computes the gradients in the trainable parameters from that in the features, `[n, width]`.
    #[must_use]
    pub fn backward(self, d: &Tensor) -> Vec<Tensor> {
        let product = (&self.features * d).sum(None::<Kind>);
        Tensor::run_backward(&[product], &self.leaves, false, false)
    }
}
