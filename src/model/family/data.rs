//! The data that a model is for.

use serde::{Deserialize, Serialize};

use crate::model::cnn::Network;

/// Facts of the data that a model is for, whatever its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data {
    /// Width of the image features.
    pub image: usize,
    /// Words of the vocabulary.
    #[serde(default)]
    pub words: usize,
    /// True if word vectors stay as they were given.
    #[serde(default)]
    pub words_frozen: bool,
    /// The network whose features of pictures are `image` wide, where it is trained with the rest. Its features are
    /// normalised before the model sees them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures: Option<Pictures>,
}

/// A network that reads pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pictures {
    /// The network.
    pub network: Network,
    /// Height and width of what the network sees, in pixels.
    pub side: usize,
    /// Shorter side of a picture before its centre is cut out, where it is not augmented.
    pub resize: usize,
}

impl Data {
    /// Features of this width and a vocabulary of this size.
    #[must_use]
    pub fn features(image: usize, words: usize) -> Self {
        Self { image, words, words_frozen: false, pictures: None }
    }

    /// Values of an image as it is given: its features, or its 3 × side × side pixels.
    #[must_use]
    pub fn image_values(&self) -> usize {
        self.pictures.map_or(self.image, |Pictures { side, .. }| 3 * side * side)
    }
}
