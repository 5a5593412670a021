//! Architecture of an image network as plain data: its layers, and the specifications of their parameters.

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

/// Layer of an image network. Its name is the prefix of its parameters in a file, without `.weight` or `.bias`.
#[derive(Debug, Clone, PartialEq)]
pub enum Layer {
    /// Convolution.
    Conv(Convolution),
    /// Batch normalisation with running mean and variance.
    BatchNorm {
        /// Name.
        name: String,
        /// Channels.
        channels: usize,
        /// Number added to a variance before the square root.
        epsilon: f64,
    },
    /// max(x, 0).
    Relu,
    /// min(max(x, 0), 6).
    Relu6,
    /// Max pooling over squares.
    MaxPool {
        /// Side of a square.
        kernel: i64,
        /// Stride, in both directions.
        stride: i64,
        /// Padding on each side.
        padding: i64,
        /// True if windows that reach over the edge count.
        ceil: bool,
    },
    /// Average pooling over 3 × 3 squares with stride 1, whose parts outside of the maps do not count.
    AveragePool3,
    /// Means over a grid with this many cells a side, as those of `AdaptiveAvgPool2d`.
    GridAverage(usize),
    /// Global average pooling: N × C × H × W to N × C.
    GlobalAverage,
    /// N × C × H × W to N × (C · H · W).
    Flatten,
    /// Linear layer with a bias.
    Linear {
        /// Name.
        name: String,
        /// Values in and out.
        widths: (usize, usize),
        /// Initialisation of the weights.
        init: NetworkInit,
        /// Initialisation of the bias.
        bias_init: NetworkInit,
    },
    /// Multiplication by a constant.
    Scale(f64),
    /// Concatenation of the channels of the branches.
    Concat(Vec<Vec<Layer>>),
    /// Sum of the branches. An empty branch is the input itself.
    Sum(Vec<Vec<Layer>>),
    /// x · Φ(x), Φ being the normal distribution.
    Gelu,
    /// x · σ(1.702 · x).
    QuickGelu,
    /// Tokens of an image: a learned class token, then the cells of the maps, row by row, plus learned vectors of the
    /// places. N × C × H × W to N × (1 + H · W) × C.
    Tokens {
        /// Prefix of the parameters `class_embedding` and `positional_embedding`.
        name: String,
        /// Width of a token.
        width: usize,
        /// Number of cells, H · W.
        patches: usize,
    },
    /// Tokens of a text: N × T identifiers to N × T × width, plus learned vectors of the places.
    TextTokens {
        /// Width of a token.
        width: usize,
        /// Number of words.
        words: usize,
        /// Largest number of tokens.
        length: usize,
    },
    /// Layer normalisation of each token.
    LayerNorm {
        /// Name.
        name: String,
        /// Width of a token.
        width: usize,
    },
    /// Multi-head attention of tokens to each other.
    Attention {
        /// Name.
        name: String,
        /// Width of a token.
        width: usize,
        /// Number of heads.
        heads: usize,
        /// True if a token attends to itself and those before it only.
        causal: bool,
        /// Initialisation of the weights of the projections, and of the output.
        init: (NetworkInit, NetworkInit),
    },
    /// First token of each item: N × T × C to N × C.
    FirstToken,
    /// Product with a matrix that has no name of a layer: x · W.
    Project {
        /// Name of W.
        name: String,
        /// Values in and out.
        widths: (usize, usize),
    },
    /// Name of the output of the layers so far, by which a setting can choose it. It computes nothing.
    Tap {
        /// Name of the module in the published code.
        name: String,
        /// Channels of the maps, or width of the vector.
        width: usize,
    },
}

/// Convolution of an image network.
#[derive(Debug, Clone, PartialEq)]
pub struct Convolution {
    /// Name.
    pub name: String,
    /// Channels in and out.
    pub channels: (usize, usize),
    /// Height and width of the kernel.
    pub kernel: (usize, usize),
    /// Stride, in both directions.
    pub stride: i64,
    /// Zero padding above and below, and on the left and right.
    pub padding: (i64, i64),
    /// Number of groups, each with its share of the channels.
    pub groups: usize,
    /// True if a bias is added.
    pub bias: bool,
    /// Initialisation of the weights.
    pub init: NetworkInit,
}

impl Convolution {
    /// Convolution with a square kernel, stride 1, no padding, one group and no bias.
    pub(super) fn new(name: impl Into<String>, channels: (usize, usize), kernel: usize) -> Self {
        let (name, kernel, padding) = (name.into(), (kernel, kernel), (0, 0));
        Self { name, channels, kernel, stride: 1, padding, groups: 1, bias: false, init: NetworkInit::NormalFanOut }
    }

    /// Returns true for a linear layer of each pixel.
    #[must_use]
    pub fn is_pixel_wise(&self) -> bool {
        self.kernel == (1, 1) && self.groups == 1 && self.padding == (0, 0)
    }
}

impl Layer {
    /// Max pooling without padding over 3 × 3 squares with stride 2.
    pub(super) const MAX_POOL_3: Self = Self::MaxPool { kernel: 3, stride: 2, padding: 0, ceil: false };

    /// Linear layer with PyTorch's initialisation.
    pub(super) fn linear(name: &str, widths: (usize, usize)) -> Self {
        let init = NetworkInit::UniformFanIn(1.0);
        Self::Linear { name: name.to_owned(), widths, init, bias_init: init }
    }

    /// Linear layer with normal weights of standard deviation 0.01, and a bias of zeros.
    pub(super) fn linear_of_small_weights(name: &str, widths: (usize, usize)) -> Self {
        let (init, bias_init) = (NetworkInit::Normal(0.01), NetworkInit::Constant(0.0));
        Self::Linear { name: name.to_owned(), widths, init, bias_init }
    }

    /// Name of the output so far.
    pub(super) fn named(name: impl Into<String>, width: usize) -> Self {
        Self::Tap { name: name.into(), width }
    }

    /// Name and width of a tap.
    pub(super) fn tap(&self) -> Option<(&str, usize)> {
        match self {
            Self::Tap { name, width } => Some((name, *width)),
            _ => None,
        }
    }
}

/// Convolution with a square kernel of odd side, and its batch normalisation. The padding is half of the kernel, so that only
/// the stride changes the size of the maps.
pub(super) fn conv_norm(
    conv: &str,
    norm: &str,
    channels: (usize, usize),
    kernel: u8,
    stride: i64,
    groups: usize,
) -> Vec<Layer> {
    let padding = i64::from(kernel / 2);
    let conv = Convolution::new(conv, channels, kernel.into());
    vec![
        Layer::Conv(Convolution { stride, padding: (padding, padding), groups, ..conv }),
        Layer::BatchNorm { name: norm.to_owned(), channels: channels.1, epsilon: 1e-5 },
    ]
}

/// Initialisation of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NetworkInit {
    /// A constant.
    Constant(f32),
    /// Uniform in ±√(`gain` / fan-in), with gain 6 for He's initialisation before a ReLU and 1 for the default of
    /// PyTorch's layers.
    UniformFanIn(f64),
    /// Normal with variance 2 / fan-out (He et al., "Delving deep into rectifiers", 2015).
    NormalFanOut,
    /// Normal with this standard deviation.
    Normal(f64),
}

/// Specification of a parameter of an image network.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkParameterSpec {
    /// Name, with `.weight` and the like.
    pub name: String,
    /// Sizes of its dimensions.
    pub shape: Vec<usize>,
    /// Initialisation.
    pub init: NetworkInit,
    /// Number of inputs that one output of the layer depends on.
    pub fan_in: usize,
}

/// Appends the specifications of the parameters of `layers` to `all`.
pub(super) fn parameter_specs(layers: &[Layer], all: &mut Vec<NetworkParameterSpec>) {
    for layer in layers {
        match layer {
            Layer::Conv(conv) => {
                let Convolution { name, channels: (from, to), kernel: (height, width), groups, bias, init, .. } = conv;
                let fan_in = from / groups * height * width;
                all.push(parameter(name, "weight", &[*to, from / groups, *height, *width], *init, fan_in));
                if *bias {
                    // PyTorch draws the bias too where the weights have its default initialisation.
                    let default = NetworkInit::UniformFanIn(1.0);
                    let init = if *init == default { default } else { NetworkInit::Constant(0.0) };
                    all.push(parameter(name, "bias", &[*to], init, fan_in));
                }
            }
            Layer::BatchNorm { name, channels, .. } => {
                for (what, value) in [("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)] {
                    all.push(parameter(name, what, &[*channels], NetworkInit::Constant(value), *channels));
                }
            }
            Layer::Linear { name, widths: (from, to), init, bias_init } => {
                all.push(parameter(name, "weight", &[*to, *from], *init, *from));
                all.push(parameter(name, "bias", &[*to], *bias_init, *from));
            }
            Layer::Concat(branches) | Layer::Sum(branches) => {
                for branch in branches {
                    parameter_specs(branch, all);
                }
            }
            Layer::Tokens { .. }
            | Layer::TextTokens { .. }
            | Layer::LayerNorm { .. }
            | Layer::Attention { .. }
            | Layer::Project { .. } => transformer_specs(layer, all),
            Layer::Relu
            | Layer::Relu6
            | Layer::Gelu
            | Layer::QuickGelu
            | Layer::FirstToken
            | Layer::MaxPool { .. }
            | Layer::AveragePool3
            | Layer::GridAverage(_)
            | Layer::GlobalAverage
            | Layer::Flatten
            | Layer::Scale(_)
            | Layer::Tap { .. } => {}
        }
    }
}

/// Appends the specifications of the parameters of a layer of a transformer.
fn transformer_specs(layer: &Layer, all: &mut Vec<NetworkParameterSpec>) {
    #[expect(clippy::cast_precision_loss, reason = "widths are small")]
    let per_width = |width: usize| NetworkInit::Normal((width as f64).recip().sqrt());
    match layer {
        Layer::Tokens { name, width, patches } => {
            all.push(parameter(name, "class_embedding", &[*width], per_width(*width), *width));
            all.push(parameter(name, "positional_embedding", &[1 + patches, *width], per_width(*width), *width));
        }
        Layer::TextTokens { width, words, length } => {
            all.push(parameter("token_embedding", "weight", &[*words, *width], NetworkInit::Normal(0.02), *width));
            all.push(parameter("", "positional_embedding", &[*length, *width], NetworkInit::Normal(0.01), *width));
        }
        Layer::LayerNorm { name, width } => {
            all.push(parameter(name, "weight", &[*width], NetworkInit::Constant(1.0), *width));
            all.push(parameter(name, "bias", &[*width], NetworkInit::Constant(0.0), *width));
        }
        Layer::Attention { name, width, init: (projections, output), .. } => {
            all.push(parameter(name, "in_proj_weight", &[3 * width, *width], *projections, *width));
            all.push(parameter(name, "in_proj_bias", &[3 * width], NetworkInit::Constant(0.0), *width));
            let name = format!("{name}.out_proj");
            all.push(parameter(&name, "weight", &[*width, *width], *output, *width));
            all.push(parameter(&name, "bias", &[*width], NetworkInit::Constant(0.0), *width));
        }
        Layer::Project { name, widths: (from, to) } => {
            let (layer, what) = name.rsplit_once('.').unwrap_or(("", name));
            all.push(parameter(layer, what, &[*from, *to], per_width(*from), *from));
        }
        _ => {}
    }
}

/// Name of the parameter `what` of a layer; a parameter of the network itself has no layer.
#[must_use]
pub fn parameter_name(layer: &str, what: &str) -> String {
    if layer.is_empty() { what.to_owned() } else { format!("{layer}.{what}") }
}

fn parameter(layer: &str, what: &str, shape: &[usize], init: NetworkInit, fan_in: usize) -> NetworkParameterSpec {
    NetworkParameterSpec { name: parameter_name(layer, what), shape: shape.to_vec(), init, fan_in }
}
