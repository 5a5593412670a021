//! Implementation of [`Family`] for VSE++.

use super::config::VseConfig;
use super::model::Vse;
use super::published;
use super::settings::{PublishedVseSettings, VseSettings};
use crate::family::contract::{Family, PublishedCheckpoint};
use crate::family::model::Model;
use crate::family::parameters::{ParameterSpec, Parameters};
use pairloom_base::error::Result;
use pairloom_spec::input_spec::InputSpec;

impl Family for VseConfig {
    type Settings = VseSettings;

    fn from_settings(settings: &VseSettings, data: InputSpec) -> Self {
        let &VseSettings {
            embed_size: embedding,
            word_dim: word,
            bidirectional,
            pooling,
            similarity,
            normalize_images,
        } = settings;
        let absolute = similarity.takes_absolute_values();
        Self {
            data,
            bidirectional,
            pooling,
            absolute,
            similarity,
            normalize_images,
            ..Self::new(data.image, data.words, word, embedding)
        }
    }

    fn input_spec(&self) -> &InputSpec {
        &self.data
    }

    fn input_spec_mut(&mut self) -> &mut InputSpec {
        &mut self.data
    }

    fn parameter_specs(&self) -> Result<Vec<ParameterSpec>> {
        self.parameter_specs()
    }

    fn build(&self, parameters: Parameters) -> Result<Box<dyn Model>> {
        Ok(Box::new(Vse::new(self.clone(), parameters)))
    }

    fn read_published(
        settings: &PublishedVseSettings,
        checkpoint: &[u8],
        words: usize,
    ) -> Result<PublishedCheckpoint<Self>> {
        published::read(settings, checkpoint, words)
    }
}
