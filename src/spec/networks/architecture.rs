//! Architecture of an image network as plain data, and the specifications of its parameters.

use super::layer::{Layer, NetworkParameterSpec, parameter_specs};
use pairloom_kernels::normalize::ChannelStatistics;
use pairloom_kernels::resize::{CropPlace, Interpolation, ResizedCrop};

/// Architecture of an image network.
///
/// ```text
/// image ─► backbone ─► feature maps ─┬─► embedding ─► feature vector ─► head ─► class scores     (VGG)
///                                    └─► head ─► class scores            (networks without embedding)
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Architecture {
    /// Layers from an image (3 channels) to feature maps.
    pub backbone: Vec<Layer>,
    /// Number of channels of the feature maps.
    pub width: usize,
    /// Layers from feature maps to a feature vector. Empty for networks whose feature is the mean of the maps.
    pub embedding: Vec<Layer>,
    /// Width of the feature vector; that of the feature maps without `embedding`.
    pub embedding_width: usize,
    /// Layers to class scores: from the feature vector, or from the feature maps without `embedding`.
    pub head: Vec<Layer>,
    /// Number of classes.
    pub classes: usize,
    /// Input for which the published weights were trained.
    pub input: NetworkInput,
    /// Part of a file of weights that the network needs.
    pub file_part: FilePart,
    /// Text tower with the same joint space, in the same file.
    pub text: Option<TextTower>,
}

/// Architecture of a text tower.
#[derive(Debug, Clone, PartialEq)]
pub struct TextTower {
    /// Layers from token identifiers to tokens.
    pub layers: Vec<Layer>,
    /// Projection of the last token of a text to the joint space.
    pub projection: Layer,
    /// Width of a token.
    pub width: usize,
    /// Width of the joint space.
    pub embedding_width: usize,
    /// Largest number of tokens of a text.
    pub length: usize,
}

/// Part of a file of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilePart {
    /// All parameters.
    Whole,
    /// Image tower of CLIP, without the text tower.
    ImageTower,
    /// Text tower of CLIP, without the image tower.
    TextTower,
}

impl FilePart {
    /// Returns true for parameters of a file that the network does not use.
    #[must_use]
    pub fn is_unneeded(self, name: &str) -> bool {
        match self {
            // Counts the batches of a training.
            Self::Whole => name.ends_with(".num_batches_tracked"),
            Self::ImageTower => !name.starts_with("visual."),
            // The temperature of the loss.
            Self::TextTower => name.starts_with("visual.") || name == "logit_scale",
        }
    }
}

/// Input of an image network: how an image is resized, cropped and normalised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NetworkInput {
    /// Shorter side after resizing, in pixels.
    pub resize: usize,
    /// Side of the square that is cut out, in pixels.
    pub crop: usize,
    /// True if the network takes squares of `crop` pixels only.
    pub fixed: bool,
    /// Filter of the resampling.
    pub interpolation: Interpolation,
    /// Mean and standard deviation of the channels.
    pub statistics: ChannelStatistics,
}

impl NetworkInput {
    /// Preset of torchvision: 256 pixels, of which 224 are cut out, bilinear, ImageNet's statistics.
    pub const IMAGENET: Self = Self {
        resize: 256,
        crop: 224,
        fixed: false,
        interpolation: Interpolation::Bilinear,
        statistics: ChannelStatistics::IMAGENET,
    };

    /// Square at a place of the resized image.
    #[must_use]
    pub fn square(&self, place: CropPlace) -> ResizedCrop {
        ResizedCrop { shorter: self.resize, crop: self.crop, place, interpolation: self.interpolation }
    }
}

/// Kind of the output of a named layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerOutput {
    /// Feature maps with this number of channels.
    Maps(usize),
    /// A vector of this width.
    Vector(usize),
}

impl Architecture {
    /// Network without an embedding: the feature of an image is the mean of its feature maps. Its input is torchvision's
    /// preset.
    #[must_use]
    pub fn of_maps(backbone: Vec<Layer>, width: usize, head: Vec<Layer>, classes: usize) -> Self {
        let input = NetworkInput::IMAGENET;
        let (file_part, text) = (FilePart::Whole, None);
        Self { backbone, width, embedding: Vec::new(), embedding_width: width, head, classes, input, file_part, text }
    }

    /// Returns true if the backbone computes feature maps; transformers compute tokens.
    #[must_use]
    pub fn has_maps(&self) -> bool {
        self.file_part == FilePart::Whole
    }

    /// Specifications of the parameters, in the order of the layers.
    #[must_use]
    pub fn parameters(&self) -> Vec<NetworkParameterSpec> {
        let mut all = Vec::new();
        for layers in [&self.backbone, &self.embedding, &self.head] {
            parameter_specs(layers, &mut all);
        }
        all
    }

    /// The same architecture without the head: images to features.
    #[must_use]
    pub fn without_head(self) -> Self {
        Self { head: Vec::new(), classes: 0, ..self }
    }

    /// Layers that have a name, with the kind of their output, in order.
    #[must_use]
    pub fn named_layers(&self) -> Vec<(&str, LayerOutput)> {
        let maps = self.backbone.iter().filter_map(Layer::tap).map(|(name, width)| (name, LayerOutput::Maps(width)));
        let vectors = self.embedding.iter().filter_map(Layer::tap);
        let vectors = vectors.map(|(name, width)| (name, LayerOutput::Vector(width)));
        maps.chain(vectors).collect()
    }

    /// The network up to the layer `name`, whose output takes the place of the feature maps or of the feature vector;
    /// `None` if there is no such layer.
    #[must_use]
    pub fn up_to(&self, name: &str) -> Option<Self> {
        let find = |layers: &[Layer]| {
            layers.iter().enumerate().find_map(|(place, layer)| {
                layer.tap().filter(|(tap, _)| *tap == name).map(|(_, width)| (layers[..place].to_vec(), width))
            })
        };
        let this = self.clone().without_head();
        if let Some((backbone, width)) = find(&self.backbone) {
            return Some(Self { backbone, width, embedding: Vec::new(), embedding_width: width, ..this });
        }
        find(&self.embedding).map(|(embedding, embedding_width)| Self { embedding, embedding_width, ..this })
    }
}
