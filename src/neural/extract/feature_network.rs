//! Network that computes the features: a published one, or a module of the user's.

use pairloom_base::error::Result;
use pairloom_model::networks::{ImageNetwork, NetworkOutput, TorchScriptModule};

/// Network of the stage, with the output that becomes the feature.
pub(super) enum FeatureNetwork {
    Published { network: Box<ImageNetwork>, output: NetworkOutput },
    Module(TorchScriptModule),
}

impl FeatureNetwork {
    /// The same network for another thread.
    pub fn share(&self) -> Self {
        match self {
            Self::Published { network, output } => {
                Self::Published { network: Box::new(network.share()), output: *output }
            }
            Self::Module(module) => Self::Module(module.clone()),
        }
    }

    /// Number of values of an image.
    pub fn row_width(&self) -> usize {
        match self {
            Self::Published { network, output } => network.output_width(*output),
            Self::Module(module) => module.row_width(),
        }
    }

    /// Computes the values of square images, given one after the other as normalised pixels.
    ///
    /// # Errors
    /// As [`ImageNetwork::compute`] or [`TorchScriptModule::compute`].
    pub fn compute(&self, pixels: &[f32], side: usize) -> Result<Vec<f32>> {
        match self {
            Self::Published { network, output } => network.compute(pixels, side, *output),
            Self::Module(module) => {
                module.compute(pixels, side).map_err(|error| error.context("the module of `torchscript.file`"))
            }
        }
    }
}
