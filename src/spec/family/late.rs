//! Settings of late interaction, a family for tests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Capabilities, FamilySettings};
use pairloom_stage::Problem;

/// Name of the parameter with the word vectors.
pub const WORDS: &str = "words.weight";

/// Settings of a late-interaction model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LateInteractionSettings {
    /// Width of the vectors.
    pub width: usize,
    /// Weight of `word_norm`, the mean square of the word vectors before they are normalised.
    pub word_norm: f64,
    /// Weight of `image_spread`, the square of the mean vector of the images of a batch.
    pub image_spread: f64,
}

impl Default for LateInteractionSettings {
    fn default() -> Self {
        Self { width: 16, word_norm: 0.01, image_spread: 0.5 }
    }
}

/// Settings of published checkpoints. This family has no published checkpoints.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unpublished {}

impl FamilySettings for LateInteractionSettings {
    type Published = Unpublished;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            word_vectors_parameter: Some(WORDS),
            local_losses: &["word_norm"],
            global_losses: &["image_spread"],
            ..Capabilities::default()
        }
    }

    fn problems(&self) -> Vec<Problem> {
        let wrong = self.width == 0;
        wrong.then(|| Problem::new("width", "got 0, expected at least 1")).into_iter().collect()
    }
}
