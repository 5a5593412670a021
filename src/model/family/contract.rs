//! Family of models as plain data: settings, what follows from them, published checkpoints.

use std::fmt::Debug;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::data::Data;
use super::model::Model;
use super::parameters::{Parameter, Parameters};
use crate::error::Result;
use crate::model::similarity::Similarity;

/// Names of settings, and what is wrong with each.
pub type Problems = Vec<(String, String)>;

/// A family of models. A value of it is one model without its parameters, as it stands in `model.json`.
pub trait Family: Debug + Clone + PartialEq + Serialize + DeserializeOwned {
    /// Settings of a training, as they stand in a pipeline file.
    type Settings: Debug + Clone + Default + Serialize + DeserializeOwned + JsonSchema;
    /// Settings of `convert` beside the published files.
    type Published: Debug + Clone + Default + Serialize + DeserializeOwned + JsonSchema;

    /// Capabilities of models with these settings.
    fn capabilities(settings: &Self::Settings) -> Capabilities;

    /// Problems of the settings.
    fn problems(settings: &Self::Settings) -> Problems;

    /// The model of these settings for this data.
    fn of(settings: &Self::Settings, data: Data) -> Self;

    /// The data that it is for.
    fn data(&self) -> &Data;

    /// The same, to be changed.
    fn data_mut(&mut self) -> &mut Data;

    /// The parameters that it wants, in an order that never changes, beside those of the network that reads pictures.
    ///
    /// # Errors
    /// A width that no tensor can have.
    fn parameters(&self) -> Result<Vec<Parameter>>;

    /// The model with these parameters.
    ///
    /// # Errors
    /// Parameters that do not fit each other.
    fn model(&self, parameters: Parameters) -> Result<Box<dyn Model>>;

    /// The model in a published checkpoint, whose vocabulary has `words` words.
    ///
    /// # Errors
    /// Bytes that are no such checkpoint, with all that is wrong in one message.
    fn published(settings: &Self::Published, checkpoint: &[u8], words: usize) -> Result<Checkpoint<Self>>;
}

/// Capabilities of a model beyond training on features in one process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Capabilities {
    /// How a score follows from one vector of an image and one of a caption. `None` where it does not: then there are no
    /// embeddings to store and no memory bank.
    pub similarity: Option<Similarity>,
    /// True if a network that reads pictures can be trained with the rest.
    pub pictures: bool,
    /// True if products can be computed in mixed precision.
    pub mixed_precision: bool,
    /// True if several ranks learn what one learns.
    pub ranks: bool,
    /// The parameter whose rows are the vectors of words.
    pub word_vectors: Option<&'static str>,
    /// Names of auxiliary losses, in the order in which a step gives them: those of shares, then those of the batch.
    pub losses: Vec<&'static str>,
}

/// Model of a published checkpoint.
#[derive(Debug)]
pub struct Checkpoint<F> {
    /// The model.
    pub config: F,
    /// Its parameters as a file of ours.
    pub parameters: Bytes,
    /// Warning of what was passed over.
    pub warning: Option<String>,
}
