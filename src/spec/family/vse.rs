//! Settings of a VSE++ model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Capabilities, FamilySettings, WORD_VECTORS};
use crate::input_spec::ImageInput;
use crate::setting_problems::check_widths;
use crate::similarity::EmbeddingSimilarity;
use pairloom_stage::Problem;

/// Joint embedding of images and captions (VSE++: Faghri et al., BMVC 2018): a linear layer for images, word vectors
/// and a GRU for captions; one unit vector for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "VseModel")]
pub struct VseSettings {
    /// Width of the joint space.
    pub embed_size: usize,
    /// Width of word vectors.
    pub word_dim: usize,
    /// Bidirectional GRU. Both directions read the same word vectors.
    pub bidirectional: bool,
    /// Pooling of the states after each word of a caption into its vector.
    pub pooling: CaptionPooling,
    /// Similarity of an image and a caption in training and validation.
    pub similarity: EmbeddingSimilarity,
    /// True if embeddings of images have unit length in training. UVS (Kiros et al., 2014) and VSE0 of VSE++
    /// (`--no_imgnorm`) train with `false`, where images with long vectors have high scores. In validation and `embed`
    /// they always have unit length, as in UVS.
    #[serde(skip_serializing_if = "is_true")]
    pub normalize_images: bool,
}

/// True for the default of a setting that was added later: leaving it out keeps the keys of older results.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
fn is_true(value: &bool) -> bool {
    *value
}

impl Default for VseSettings {
    fn default() -> Self {
        let (pooling, similarity) = (CaptionPooling::Last, EmbeddingSimilarity::Cosine);
        Self { embed_size: 1024, word_dim: 300, bidirectional: false, pooling, similarity, normalize_images: true }
    }
}

impl FamilySettings for VseSettings {
    type Published = PublishedVseSettings;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            image_input: ImageInput::Features,
            similarity: Some(self.similarity),
            finetuning: true,
            mixed_precision: true,
            single_rank_reason: None,
            word_vectors_parameter: Some(WORD_VECTORS),
            ..Capabilities::default()
        }
    }

    fn problems(&self) -> Vec<Problem> {
        check_widths(&[("embed_size", self.embed_size), ("word_dim", self.word_dim)])
    }
}

/// Pooling of the states after each word of a caption into one vector. Padding does not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CaptionPooling {
    /// State after the last word (VSE++); for the reverse direction, the state after the first word.
    #[default]
    Last,
    /// Mean over the words.
    Mean,
    /// Maximum over the words, value by value.
    Max,
}

/// Settings that a published checkpoint of VSE++, HAL or the same layout does not contain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PublishedVse")]
pub struct PublishedVseSettings {
    /// True if both embeddings end with |·|: order embeddings, trained with `--use_abs`.
    #[serde(default)]
    pub absolute: bool,
}
