//! Models from what they are made of: new ones, and those whose parameters were kept.

use tch::{Device, Tensor};

use super::list::Config;
use super::model::Model;
use super::parameters::Parameters;
use crate::error::Result;
use crate::model::named::Named;

impl Config {
    /// A model that has learned nothing. Its parameters depend on `self` and `seed` alone.
    ///
    /// # Errors
    /// A width that no tensor can have.
    pub fn create(&self, seed: u64, device: Device) -> Result<Box<dyn Model>> {
        self.model(Parameters::random(self.parameters()?, self.data(), seed, device)?)
    }

    /// The model with these parameters: its own in the order in which its family describes them, then its network's.
    ///
    /// # Errors
    /// Another number of parameters, or shapes that do not fit.
    pub fn with(&self, parameters: Vec<Tensor>) -> Result<Box<dyn Model>> {
        self.model(Parameters::new(self.parameters()?, self.data(), parameters)?)
    }

    /// The model whose parameters stand in `named` under their names with `prefix`.
    ///
    /// # Errors
    /// As [`Config::with`]; one is missing.
    pub fn take(&self, named: &mut Named, prefix: &str, device: Device) -> Result<Box<dyn Model>> {
        self.model(Parameters::take(self.parameters()?, self.data(), named, prefix, device)?)
    }

    /// The same for a vocabulary of `words` words.
    #[must_use]
    pub fn for_words(mut self, words: usize) -> Self {
        self.data_mut().words = words;
        self
    }

    /// The same on the features of its network, in place of pictures; itself if it has no network.
    #[must_use]
    pub fn on_features(mut self) -> Self {
        self.data_mut().pictures = None;
        self
    }
}
