//! Description of the data that a model is for.

use serde::{Deserialize, Serialize};

use crate::model::cnn::Network;

/// Description of the data that a model of any family is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputSpec {
    /// Width of the image features.
    pub image: usize,
    /// Number of words in the vocabulary.
    #[serde(default)]
    pub words: usize,
    /// True if the word vectors are not trained.
    #[serde(default)]
    pub words_frozen: bool,
    /// CNN that is fine-tuned with the model and computes features of width `image` from raw images; they are
    /// L2-normalised. `None` for a model on stored features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures: Option<FinetunedCnn>,
}

/// CNN that is fine-tuned with a model, and the size of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinetunedCnn {
    /// The CNN.
    pub network: Network,
    /// Height and width of its input, in pixels.
    pub side: usize,
    /// Shorter side, in pixels, of a resized image before the centre crop, if it is not augmented.
    pub resize: usize,
}

impl InputSpec {
    /// Features of width `image` and a vocabulary of `words` words.
    #[must_use]
    pub fn for_features(image: usize, words: usize) -> Self {
        Self { image, words, words_frozen: false, pictures: None }
    }

    /// Number of values of an image in the model's input: its feature, or 3 × side × side pixels.
    #[must_use]
    pub fn values_per_image(&self) -> usize {
        self.pictures.map_or(self.image, |FinetunedCnn { side, .. }| 3 * side * side)
    }
}
