//! The settings of a training of VSE++.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::encoder::Pooling;
use crate::model::family::contract::Problems;
use crate::model::similarity::Similarity;

/// A joint embedding of images and captions (VSE++: Faghri et al., BMVC 2018): a linear layer for images, word vectors and a
/// GRU for captions, one unit vector each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "VseModel")]
pub struct Settings {
    /// Width of the joint space.
    pub embedding: usize,
    /// Width of word vectors.
    pub word: usize,
    /// Read captions from both ends. Both directions read the same word vectors.
    pub bidirectional: bool,
    /// How the states of the words of a caption become its vector.
    pub pooling: Pooling,
    /// Similarity of an image and a caption, in training and in validation.
    pub similarity: Similarity,
}

/// The widest layer: its recurrent weights fill 3 GiB.
const WIDEST: usize = 16_384;

impl Default for Settings {
    fn default() -> Self {
        let (pooling, similarity) = (Pooling::Last, Similarity::Cosine);
        Self { embedding: 1024, word: 300, bidirectional: false, pooling, similarity }
    }
}

impl Settings {
    /// Names of settings, and what is wrong with each.
    pub(super) fn problems(&self) -> Problems {
        let mut problems = Problems::new();
        for (setting, got) in [("embedding", self.embedding), ("word", self.word)] {
            if !(1..=WIDEST).contains(&got) {
                problems.push((setting.to_owned(), format!("got {got}, wanted 1 to {WIDEST}")));
            }
        }
        problems
    }
}
