//! Settings of a VSE++ model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::encoder::CaptionPooling;
use crate::model::setting_problems::SettingProblems;
use crate::model::similarity::EmbeddingSimilarity;

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
}

/// Largest width of a layer. Its recurrent weights fill 3 GiB.
const MAX_WIDTH: usize = 16_384;

impl Default for VseSettings {
    fn default() -> Self {
        let (pooling, similarity) = (CaptionPooling::Last, EmbeddingSimilarity::Cosine);
        Self { embed_size: 1024, word_dim: 300, bidirectional: false, pooling, similarity }
    }
}

impl VseSettings {
    /// Checks the settings.
    pub(super) fn problems(&self) -> SettingProblems {
        let mut problems = SettingProblems::new();
        for (setting, got) in [("embed_size", self.embed_size), ("word_dim", self.word_dim)] {
            if !(1..=MAX_WIDTH).contains(&got) {
                problems.push((setting.to_owned(), format!("got {got}, wanted 1 to {MAX_WIDTH}")));
            }
        }
        problems
    }
}
