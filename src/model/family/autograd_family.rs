//! [`Family`] of every model that libtorch differentiates.

use super::autograd::AutogradModel;
use super::contract::{Family, PublishedCheckpoint};
use super::differentiable::{AutogradConfig, Differentiable};
use super::model::Model;
use super::parameters::{ParameterSpec, Parameters};
use super::published::read_checkpoint;
use pairloom_base::error::{Error, Result};
use pairloom_spec::input_spec::InputSpec;

impl<S: Differentiable> Family for AutogradConfig<S> {
    type Settings = S;

    fn from_settings(settings: &S, data: InputSpec) -> Self {
        Self { data, settings: settings.clone() }
    }

    fn input_spec(&self) -> &InputSpec {
        &self.data
    }

    fn input_spec_mut(&mut self) -> &mut InputSpec {
        &mut self.data
    }

    fn parameter_specs(&self) -> Result<Vec<ParameterSpec>> {
        self.settings.parameter_specs(&self.data)
    }

    fn build(&self, parameters: Parameters) -> Result<Box<dyn Model>> {
        Ok(Box::new(AutogradModel::new(self.clone(), parameters)))
    }

    fn read_published(published: &S::Published, checkpoint: &[u8], words: usize) -> Result<PublishedCheckpoint<Self>> {
        let layout = S::CHECKPOINT_LAYOUT.ok_or_else(|| Error::data("nobody has published a model of this family"))?;
        read_checkpoint(checkpoint, words, &layout, |shapes| S::from_published(published, shapes, words))
    }
}
