//! VSE++ as one of the families.

use super::config::{Config, WORDS};
use super::model::Vse;
use super::published::{self, PublishedSettings};
use super::settings::Settings;
use crate::error::Result;
use crate::model::family::contract::{Capabilities, Checkpoint, Family, Problems};
use crate::model::family::data::Data;
use crate::model::family::model::Model;
use crate::model::family::parameters::{Parameter, Parameters};

impl Family for Config {
    type Settings = Settings;
    type Published = PublishedSettings;

    fn capabilities(settings: &Settings) -> Capabilities {
        Capabilities {
            similarity: Some(settings.similarity),
            pictures: true,
            mixed_precision: true,
            ranks: true,
            word_vectors: Some(WORDS),
            losses: Vec::new(),
        }
    }

    fn problems(settings: &Settings) -> Problems {
        settings.problems()
    }

    fn of(settings: &Settings, data: Data) -> Self {
        let &Settings { embedding, word, bidirectional, pooling, similarity } = settings;
        let absolute = similarity.takes_absolute_values();
        Self {
            data,
            bidirectional,
            pooling,
            absolute,
            similarity,
            ..Self::vse(data.image, data.words, word, embedding)
        }
    }

    fn data(&self) -> &Data {
        &self.data
    }

    fn data_mut(&mut self) -> &mut Data {
        &mut self.data
    }

    fn parameters(&self) -> Result<Vec<Parameter>> {
        self.parameters()
    }

    fn model(&self, parameters: Parameters) -> Result<Box<dyn Model>> {
        Ok(Box::new(Vse::new(self.clone(), parameters)))
    }

    fn published(settings: &PublishedSettings, checkpoint: &[u8], words: usize) -> Result<Checkpoint<Self>> {
        published::read(settings, checkpoint, words)
    }
}
