//! Description of the data that a model is for.

use serde::{Deserialize, Serialize};

use crate::networks::Network;

/// Kind of the images that a model reads from a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImageInput {
    /// One feature vector of an image.
    #[default]
    Features,
    /// Feature vectors of the regions of an image.
    Regions,
}

impl ImageInput {
    /// Name of the table, and of the setting that names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Features => "features",
            Self::Regions => "regions",
        }
    }

    /// Name of the column with the vectors.
    #[must_use]
    pub fn column(self) -> &'static str {
        match self {
            Self::Features => "feature",
            Self::Regions => "regions",
        }
    }
}

/// Shape of an image in a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageShape {
    /// Number of places for regions; `None` for one feature vector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<usize>,
    /// Width of a vector.
    pub width: usize,
}

impl ImageShape {
    /// One feature vector of this width.
    #[must_use]
    pub fn feature(width: usize) -> Self {
        Self { regions: None, width }
    }

    /// Number of values of an image.
    #[must_use]
    pub fn values(self) -> usize {
        self.regions.unwrap_or(1) * self.width
    }
}

impl std::fmt::Display for ImageShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.regions {
            Some(regions) => write!(f, "{regions} regions of width {}", self.width),
            None => write!(f, "width {}", self.width),
        }
    }
}

/// Description of the data that a model of any family is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputSpec {
    /// Width of the feature vector of an image or of a region.
    pub image: usize,
    /// Number of places for regions of an image in the training data; `None` for one feature vector. A place without a
    /// region holds zeros.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<usize>,
    /// Number of words in the vocabulary.
    #[serde(default)]
    pub words: usize,
    /// Number of concepts; `None` for a model without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concepts: Option<usize>,
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
    /// True if its batch normalisation uses the statistics of the batch in training, and updates the stored ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub batch_statistics: bool,
}

impl InputSpec {
    /// Features of width `image` and a vocabulary of `words` words.
    #[must_use]
    pub fn for_features(image: usize, words: usize) -> Self {
        Self { image, regions: None, words, concepts: None, words_frozen: false, pictures: None }
    }

    /// Up to `places` regions of width `region`, and a vocabulary of `words` words.
    #[must_use]
    pub fn for_regions(places: usize, region: usize, words: usize) -> Self {
        Self { regions: Some(places), ..Self::for_features(region, words) }
    }

    /// Kind of the images that the model reads from a table.
    #[must_use]
    pub fn image_input(&self) -> ImageInput {
        if self.regions.is_some() { ImageInput::Regions } else { ImageInput::Features }
    }

    /// Shape of an image in the training data.
    #[must_use]
    pub fn image_shape(&self) -> ImageShape {
        ImageShape { regions: self.regions, width: self.image }
    }

    /// Number of values of an image in the training data: its feature or regions, or 3 × side × side pixels.
    #[must_use]
    pub fn values_per_image(&self) -> usize {
        self.pictures.map_or(self.image_shape().values(), |FinetunedCnn { side, .. }| 3 * side * side)
    }
}
