//! Contract of the settings of model families.

use std::fmt::Debug;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::input_spec::ImageInput;
use crate::setting_problems::SettingProblems;
use crate::similarity::EmbeddingSimilarity;

/// Name of the parameter with the word vectors.
pub const WORD_VECTORS: &str = "txt_enc.embed.weight";

/// Settings of a family of models in the stage `train` of a pipeline file.
pub trait FamilySettings: Debug + Clone + Default + Serialize + DeserializeOwned + JsonSchema {
    /// Settings of the stage `import_model` that a published checkpoint does not contain.
    type Published: Debug + Clone + Default + Serialize + DeserializeOwned + JsonSchema;

    /// Capabilities of models with these settings.
    fn capabilities(&self) -> Capabilities;

    /// Checks the settings.
    fn problems(&self) -> SettingProblems;
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
    /// True if the model reads a caption with the words of all captions of its image.
    pub image_words: bool,
    /// Names of the auxiliary losses of the pairs of a rank, which are summed over the ranks.
    pub local_losses: &'static [&'static str],
    /// Names of the auxiliary losses of the global batch.
    pub global_losses: &'static [&'static str],
}

/// Statistics that batch normalisation uses in training. An embedding is always computed with the running statistics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BatchNormStatistics {
    /// Statistics of the batch. They update the running statistics. A training with several ranks is refused, because each
    /// rank would use the statistics of its own pairs.
    #[default]
    Batch,
    /// Running statistics, which do not change: mean 0 and variance 1, or those of the checkpoint that a training
    /// starts from. Weight and bias are trained.
    Frozen,
}

impl BatchNormStatistics {
    /// Reason why several ranks cannot train a model with these statistics.
    #[must_use]
    pub fn single_rank_reason(self) -> Option<&'static str> {
        let reason = "each rank would normalise with the statistics of its own pairs";
        (self == Self::Batch).then_some(reason)
    }
}
