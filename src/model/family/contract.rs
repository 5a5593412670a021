//! Family of models as plain data: settings, parameters, capabilities, published checkpoints.

use std::fmt::Debug;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::input_spec::{ImageInput, InputSpec};
use super::model::Model;
use super::parameters::{ParameterSpec, Parameters};
use crate::error::Result;
use crate::model::setting_problems::SettingProblems;
use crate::model::similarity::EmbeddingSimilarity;

/// Family of models. A value of the type describes one model without its parameters, as `model.json` does.
pub trait Family: Debug + Clone + PartialEq + Serialize + DeserializeOwned {
    /// Settings of a model in the stage `train` of a pipeline file.
    type Settings: Debug + Clone + Default + Serialize + DeserializeOwned + JsonSchema;
    /// Settings of the stage `import_model` that a published checkpoint does not contain.
    type Published: Debug + Clone + Default + Serialize + DeserializeOwned + JsonSchema;

    /// Capabilities of models with these settings.
    fn capabilities(settings: &Self::Settings) -> Capabilities;

    /// Checks the settings.
    fn problems(settings: &Self::Settings) -> SettingProblems;

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
    fn read_published(settings: &Self::Published, checkpoint: &[u8], words: usize)
    -> Result<PublishedCheckpoint<Self>>;
}

/// Largest score that a model can give.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ScoreRange {
    /// Scores are at most 1, as cosines and means of them are.
    #[default]
    UpToOne,
    /// Scores can be above 1, but grow with the logarithm of the number of words or regions at most.
    AboveOne,
    /// Scores are sums over words or regions.
    Sums,
}

/// Capabilities of a model beyond training in one process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Capabilities {
    /// Image input.
    pub image_input: ImageInput,
    /// Similarity of the embedding of an image and the embedding of a caption. `None` if a score does not follow from
    /// one vector each: such a model has no embeddings to store and no memory bank.
    pub similarity: Option<EmbeddingSimilarity>,
    /// Largest score that a model can give.
    pub score_range: ScoreRange,
    /// True if a score has attention between the words of a caption and the regions of an image.
    pub word_attention: bool,
    /// True if the model has parameters for each place of a region, so that no image has more regions than those it was
    /// trained on.
    pub fixed_places: bool,
    /// True if a CNN can be fine-tuned with the model.
    pub finetuning: bool,
    /// True if matrix products can be computed in mixed precision.
    pub mixed_precision: bool,
    /// Reason why several ranks cannot train it with the result of one; `None` if they can.
    pub single_rank_reason: Option<&'static str>,
    /// Name of the parameter whose rows are the word vectors.
    pub word_vectors_parameter: Option<&'static str>,
    /// True if the model reads a table of concepts in training.
    pub concepts: bool,
    /// True if the model reads a caption with the words of all captions of its image
    /// ([`with_image_words`](super::image_words::with_image_words)).
    pub image_words: bool,
    /// Names of the auxiliary losses of the pairs of a rank, which are summed over the ranks.
    pub local_losses: &'static [&'static str],
    /// Names of the auxiliary losses of the global batch.
    pub global_losses: &'static [&'static str],
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
