//! Models with random parameters, and with parameters that were saved.

use tch::{Device, Tensor};

use super::model::Model;
use super::parameters::Parameters;
use super::registry::ModelConfig;
use crate::named_tensors::NamedTensors;
use pairloom_base::error::Result;

impl ModelConfig {
    /// Creates a model with random parameters, which depend on `self` and `seed` only.
    ///
    /// # Errors
    /// A width that no tensor can have.
    pub fn create(&self, seed: u64, device: Device) -> Result<Box<dyn Model>> {
        self.build(Parameters::random(self.parameter_specs()?, self.input_spec(), seed, device)?)
    }

    /// Builds the model with these parameters: its own, in the order of their specifications, then those of its CNN.
    ///
    /// # Errors
    /// A wrong number of parameters, or shapes that do not fit.
    pub fn with_parameters(&self, parameters: Vec<Tensor>) -> Result<Box<dyn Model>> {
        self.build(Parameters::new(self.parameter_specs()?, self.input_spec(), parameters)?)
    }

    /// Builds the model with the parameters of `named`, whose names begin with `prefix`.
    ///
    /// # Errors
    /// As [`ModelConfig::with_parameters`], or a parameter is missing.
    pub fn load(&self, named: &mut NamedTensors, prefix: &str, device: Device) -> Result<Box<dyn Model>> {
        self.build(Parameters::from_named_tensors(self.parameter_specs()?, self.input_spec(), named, prefix, device)?)
    }

    /// Returns the description with a vocabulary of `words` words.
    #[must_use]
    pub fn with_vocabulary_size(mut self, words: usize) -> Self {
        self.input_spec_mut().words = words;
        self
    }

    /// Returns the description of the same model on the features of its CNN in place of raw images. Unchanged without a
    /// CNN.
    #[must_use]
    pub fn without_network(mut self) -> Self {
        self.input_spec_mut().pictures = None;
        self
    }
}
