//! CLIP (Radford et al., "Learning transferable visual models from natural language supervision", 2021): image towers of
//! the vision transformer and text towers, with `open_clip`'s names, shapes and values.
//!
//! OpenAI's weights need `QuickGELU` (`ViT-B-32-quickgelu`), those of LAION `GELU` (`ViT-B-32`); the parameters are the
//! same.

use super::architecture::{Architecture, FilePart, NetworkInput, TextTower};
use super::architecture::{Convolution, Layer, NetworkInit};
use pairloom_kernels::normalize::ChannelStatistics;
use pairloom_kernels::resize::Interpolation;

/// Side of the images, in pixels.
const SIDE: usize = 224;
/// Number of tokens of a text, with its start and end.
const TEXT_LENGTH: usize = 77;
/// Number of words of the byte-pair vocabulary.
const WORDS: usize = 49_408;
/// Width of an attention head.
const HEAD: usize = 64;

/// ViT-B/32: 512-d embeddings.
pub(super) fn vit_b_32() -> Architecture {
    BASE_32.architecture(&Layer::Gelu)
}

/// ViT-B/32 with `QuickGELU`.
pub(super) fn vit_b_32_quickgelu() -> Architecture {
    BASE_32.architecture(&Layer::QuickGelu)
}

/// ViT-B/16: 512-d embeddings.
pub(super) fn vit_b_16() -> Architecture {
    BASE_16.architecture(&Layer::Gelu)
}

/// ViT-B/16 with `QuickGELU`.
pub(super) fn vit_b_16_quickgelu() -> Architecture {
    BASE_16.architecture(&Layer::QuickGelu)
}

/// ViT-L/14: 768-d embeddings.
pub(super) fn vit_l_14() -> Architecture {
    LARGE_14.architecture(&Layer::Gelu)
}

/// ViT-L/14 with `QuickGELU`.
pub(super) fn vit_l_14_quickgelu() -> Architecture {
    LARGE_14.architecture(&Layer::QuickGelu)
}

/// Sizes of a CLIP.
#[derive(Debug, Clone, Copy)]
pub struct ClipSizes {
    /// Side of a patch of the image, in pixels.
    pub patch: usize,
    /// Side of an image, in pixels.
    pub side: usize,
    /// Width of the tokens of the image.
    pub image_width: usize,
    /// Blocks of the image tower.
    pub image_blocks: usize,
    /// Width of the tokens of the text.
    pub text_width: usize,
    /// Blocks of the text tower.
    pub text_blocks: usize,
    /// Width of the joint space.
    pub embedding: usize,
    /// Number of words of the vocabulary.
    pub words: usize,
    /// Width of an attention head.
    pub head: usize,
}

const BASE_32: ClipSizes = ClipSizes {
    patch: 32,
    side: SIDE,
    image_width: 768,
    image_blocks: 12,
    text_width: 512,
    text_blocks: 12,
    embedding: 512,
    words: WORDS,
    head: HEAD,
};
const BASE_16: ClipSizes = ClipSizes { patch: 16, ..BASE_32 };
const LARGE_14: ClipSizes =
    ClipSizes { patch: 14, image_width: 1024, image_blocks: 24, text_width: 768, embedding: 768, ..BASE_32 };

impl ClipSizes {
    /// Architecture with this activation.
    #[must_use]
    pub fn architecture(&self, activation: &Layer) -> Architecture {
        let width = self.image_width;
        let patches = Convolution {
            stride: i64::try_from(self.patch).unwrap_or(i64::MAX),
            init: NetworkInit::UniformFanIn(1.0),
            ..Convolution::new("visual.conv1", (3, width), self.patch)
        };
        let mut backbone = vec![
            Layer::Conv(patches),
            Layer::Tokens { name: "visual".to_owned(), width, patches: (self.side / self.patch).pow(2) },
            layer_norm("visual.ln_pre", width),
        ];
        let init = AttentionInit { projections: XAVIER, output: DEFAULT, inner: DEFAULT, outer: DEFAULT };
        for index in 0..self.image_blocks {
            let name = format!("visual.transformer.resblocks.{index}");
            backbone.extend(block(&name, (width, width / self.head), false, activation, init));
        }
        let embedding = vec![
            Layer::FirstToken,
            layer_norm("visual.ln_post", width),
            Layer::Project { name: "visual.proj".to_owned(), widths: (width, self.embedding) },
        ];
        Architecture {
            backbone,
            width,
            embedding,
            embedding_width: self.embedding,
            head: Vec::new(),
            classes: 0,
            input: NetworkInput {
                resize: self.side,
                crop: self.side,
                fixed: true,
                interpolation: Interpolation::Bicubic,
                statistics: ChannelStatistics::CLIP,
            },
            file_part: FilePart::ImageTower,
            text: Some(self.text(activation)),
        }
    }

    fn text(&self, activation: &Layer) -> TextTower {
        let width = self.text_width;
        let mut layers = vec![Layer::TextTokens { width, words: self.words, length: TEXT_LENGTH }];
        #[expect(clippy::cast_precision_loss, reason = "widths and depths are small")]
        let (per_width, depth) = ((width as f64).recip().sqrt(), ((2 * self.text_blocks) as f64).recip().sqrt());
        let init = AttentionInit {
            projections: NetworkInit::Normal(per_width),
            output: NetworkInit::Normal(per_width * depth),
            inner: NetworkInit::Normal(per_width / 2f64.sqrt()),
            outer: NetworkInit::Normal(per_width * depth),
        };
        for index in 0..self.text_blocks {
            let name = format!("transformer.resblocks.{index}");
            layers.extend(block(&name, (width, width / self.head), true, activation, init));
        }
        layers.push(layer_norm("ln_final", width));
        let projection = Layer::Project { name: "text_projection".to_owned(), widths: (width, self.embedding) };
        TextTower { layers, projection, width, embedding_width: self.embedding, length: TEXT_LENGTH }
    }
}

/// Default initialisation of PyTorch's linear layers.
const DEFAULT: NetworkInit = NetworkInit::UniformFanIn(1.0);

/// Xavier's uniform initialisation of the 3 · d × d projections of an attention: ±√(6 / (4 · d)), with fan-in d.
const XAVIER: NetworkInit = NetworkInit::UniformFanIn(1.5);

/// Initialisation of the weights of a block.
#[derive(Clone, Copy)]
struct AttentionInit {
    projections: NetworkInit,
    output: NetworkInit,
    inner: NetworkInit,
    outer: NetworkInit,
}

fn layer_norm(name: &str, width: usize) -> Layer {
    Layer::LayerNorm { name: name.to_owned(), width }
}

/// Residual attention block of a transformer that normalises first.
fn block(
    name: &str,
    (width, heads): (usize, usize),
    causal: bool,
    activation: &Layer,
    init: AttentionInit,
) -> [Layer; 2] {
    let attention = vec![
        layer_norm(&format!("{name}.ln_1"), width),
        Layer::Attention { name: format!("{name}.attn"), width, heads, causal, init: (init.projections, init.output) },
    ];
    let linear = |part: &str, widths, init| Layer::Linear {
        name: format!("{name}.mlp.{part}"),
        widths,
        init,
        bias_init: DEFAULT,
    };
    let perceptron = vec![
        layer_norm(&format!("{name}.ln_2"), width),
        linear("c_fc", (width, 4 * width), init.inner),
        activation.clone(),
        linear("c_proj", (4 * width, width), init.outer),
    ];
    [Layer::Sum(vec![attention, vec![]]), Layer::Sum(vec![perceptron, vec![]])]
}
