//! Family of models: its settings, parameters and published checkpoints.

use std::fmt::Debug;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::model::Model;
use super::parameters::{ParameterSpec, Parameters};
use pairloom_base::error::Result;
use pairloom_spec::family::FamilySettings;
pub use pairloom_spec::family::{Capabilities, ScoreRange};
use pairloom_spec::input_spec::InputSpec;

/// Family of models. A value of the type describes one model without its parameters, as `model.json` does.
pub trait Family: Debug + Clone + PartialEq + Serialize + DeserializeOwned {
    /// Settings of a model in the stage `train` of a pipeline file.
    type Settings: FamilySettings;

    /// Description of the model with these settings, for this data.
    fn from_settings(settings: &Self::Settings, input_spec: InputSpec) -> Self;

    /// Description of the data that the model is for.
    fn input_spec(&self) -> &InputSpec;

    /// Description of the data that the model is for, mutable.
    fn input_spec_mut(&mut self) -> &mut InputSpec;

    /// Specifications of the parameters, in an order that never changes, without those of the CNN.
    ///
    /// # Errors
    /// A width that no tensor can have.
    fn parameter_specs(&self) -> Result<Vec<ParameterSpec>>;

    /// Builds the model with these parameters.
    ///
    /// # Errors
    /// Parameters that do not fit each other.
    fn build(&self, parameters: Parameters) -> Result<Box<dyn Model>>;

    /// Reads a published checkpoint, whose vocabulary has `words` words.
    ///
    /// # Errors
    /// Bytes that are not such a checkpoint, with all mistakes in one message.
    fn read_published(
        settings: &<Self::Settings as FamilySettings>::Published,
        checkpoint: &[u8],
        words: usize,
    ) -> Result<PublishedCheckpoint<Self>>;
}

/// Contents of a published checkpoint.
#[derive(Debug)]
pub struct PublishedCheckpoint<F> {
    /// Description of the model.
    pub config: F,
    /// Parameters as the bytes of `model.safetensors`.
    pub parameters: Bytes,
    /// Warning about tensors that were ignored.
    pub warning: Option<String>,
}
