//! Settings of the model families: what every family states of its models, and the list of the families, one file each.

pub mod vse;
pub mod scan;
pub mod vsrn;
pub mod sgraf;
pub mod vse_infinity;
pub mod cvse;
pub mod late;

use std::fmt::Debug;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::input_spec::ImageInput;
use crate::similarity::EmbeddingSimilarity;
use pairloom_stage::Problem;

macro_rules! families {
    ($($(#[doc = $about:literal])* $(#[schemars($skip:ident)])? $name:ident($settings:ty) = $setting:literal);* $(;)?) => {
        /// Family of a model and its settings.
        #[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(rename = "Model")]
        pub enum ModelSettings {
            $($(#[doc = $about])* $(#[schemars($skip)])? #[serde(rename = $setting)]
            $name($settings)),*
        }

        /// Family of a published checkpoint, and settings that the checkpoint does not contain.
        #[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(rename = "PublishedModel")]
        pub enum PublishedModel {
            $($(#[doc = $about])* $(#[schemars($skip)])? #[serde(rename = $setting)]
            $name(<$settings as FamilySettings>::Published)),*
        }

        impl ModelSettings {
            /// Name of the family in pipeline files.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $(Self::$name(_) => $setting),* }
            }

            /// Capabilities of models with these settings.
            #[must_use]
            pub fn capabilities(&self) -> Capabilities {
                match self { $(Self::$name(settings) => settings.capabilities()),* }
            }

            /// Checks the settings. Names of settings in the problems begin with the name of the family.
            #[must_use]
            pub fn problems(&self) -> Vec<Problem> {
                let found = match self { $(Self::$name(settings) => settings.problems()),* };
                found.into_iter().map(|problem| problem.under(self.name())).collect()
            }
        }

        impl PublishedModel {
            /// Name of the family in pipeline files.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $(Self::$name(_) => $setting),* }
            }

            /// Capabilities of a model of the family with default settings.
            #[must_use]
            pub fn default_capabilities(&self) -> Capabilities {
                match self { $(Self::$name(_) => <$settings>::default().capabilities()),* }
            }
        }
    };
}

families! {
    /// VSE++ and its relatives: a linear layer for images, words and a GRU for captions, one vector each (Faghri et
    /// al., BMVC 2018).
    Vse(vse::VseSettings) = "vse";
    /// SCAN: cross attention between the regions of an image and the words of a caption (Lee et al., ECCV 2018).
    Scan(scan::ScanSettings) = "scan";
    /// VSRN: graph convolutions and a GRU over regions, one vector each (Li et al., ICCV 2019).
    Vsrn(vsrn::VsrnSettings) = "vsrn";
    /// SGR and SAF: a graph of alignments of words and regions, or their filtration (Diao et al., AAAI 2021).
    Sgraf(sgraf::SgrafSettings) = "sgraf";
    /// CVSE: concepts that captions have in common, as a graph; one vector each (Wang et al., ECCV 2020).
    Cvse(cvse::CvseSettings) = "cvse";
    /// VSE∞: learned pooling of regions and of words, one vector each (Chen et al., CVPR 2021).
    VseInfinity(vse_infinity::VseInfinitySettings) = "vse_infinity";
    /// Late interaction, a family for tests: no pipeline file can name it, since the schema lacks it.
    #[schemars(skip)]
    Late(late::LateInteractionSettings) = "late";
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self::Vse(vse::VseSettings::default())
    }
}

impl Default for PublishedModel {
    fn default() -> Self {
        Self::Vse(vse::PublishedVseSettings::default())
    }
}

/// Name of the parameter with the word vectors.
pub const WORD_VECTORS: &str = "txt_enc.embed.weight";

/// Settings of a family of models in the stage `train` of a pipeline file.
pub trait FamilySettings: Debug + Clone + Default + Serialize + DeserializeOwned + JsonSchema {
    /// Settings of the stage `import_model` that a published checkpoint does not contain.
    type Published: Debug + Clone + Default + Serialize + DeserializeOwned + JsonSchema;

    /// Capabilities of models with these settings.
    fn capabilities(&self) -> Capabilities;

    /// Checks the settings.
    fn problems(&self) -> Vec<Problem>;
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
