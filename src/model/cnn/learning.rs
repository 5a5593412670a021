//! A network that is trained with what its features go into.
//!
//! libtorch differentiates it. Batch normalisation uses the stored mean and variance and leaves them alone: published code
//! puts the whole network in training mode, so that they drift with the batches even where nothing else is trained.

use tch::{Kind, Tensor};

use super::network::Cnn;
use crate::error::Result;

/// Features of a batch and what their gradient needs.
#[derive(Debug)]
pub struct Learning {
    /// The means of the feature maps, `[n, width]`, on the unit sphere.
    pub features: Tensor,
    /// The parameters that learn, in the order of [`Cnn::parameters`].
    leaves: Vec<Tensor>,
}

impl Cnn {
    /// Whether training changes the parameter of this name: all but the stored statistics of batch normalisation.
    #[must_use]
    pub fn learns(name: &str) -> bool {
        !name.ends_with(".running_mean") && !name.ends_with(".running_var")
    }

    /// The unit vectors of the [average](Cnn::average) of pictures.
    ///
    /// # Errors
    /// As there.
    pub fn unit_average(&self, pictures: &Tensor) -> Result<Tensor> {
        let features = self.average(pictures)?;
        let norms = features.norm_scalaropt_dim(2, [1i64].as_slice(), true).clamp_min(1e-12);
        Ok(features / norms)
    }

    /// The same, for a step of training.
    ///
    /// # Errors
    /// As there.
    pub fn learn(&self, pictures: &Tensor) -> Result<Learning> {
        let shared = self.map(|name, parameter| parameter.detach().set_requires_grad(Self::learns(name)));
        let features = shared.unit_average(pictures)?;
        let leaves = shared.parameters().into_iter().filter(|(name, _)| Self::learns(name));
        Ok(Learning { features, leaves: leaves.map(|(_, leaf)| leaf).collect() })
    }
}

impl Learning {
    /// Gradients in the parameters that learn, from that in the features, `[n, width]`.
    #[must_use]
    pub fn backward(self, d: &Tensor) -> Vec<Tensor> {
        let pulled = (&self.features * d).sum(None::<Kind>);
        Tensor::run_backward(&[pulled], &self.leaves, false, false)
    }
}
