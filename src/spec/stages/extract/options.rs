//! Nested settings of `extract`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pairloom_kernels::normalize::ChannelStatistics;
use pairloom_stage::{SourceRef, TableRef};

/// Source of the weights.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WeightSource {
    /// A safetensors file with the parameter names of the published code (torchvision, timm, `open_clip`).
    File(SourceRef),
    /// Weights of a model of `train` with the setting `finetune`.
    Model(TableRef),
    /// Random weights, drawn as the published code draws them.
    Random,
}

/// Module of the user's in TorchScript, as `torch.jit.trace(…).save(file)` writes it.
///
/// libtorch runs the code in the file for batches `(batch_size, 3, crop, crop)` of f32, in evaluation mode. A feature must
/// be a function of its image alone.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TorchScriptFile {
    /// File, whose code runs.
    pub file: SourceRef,
    /// Mean of red, green and blue, for values in 0..1, which is subtracted; by default that of ImageNet.
    #[serde(default = "imagenet_mean")]
    pub mean: [f32; 3],
    /// Standard deviation of the channels, by which they are divided; by default that of ImageNet.
    #[serde(default = "imagenet_deviation")]
    pub deviation: [f32; 3],
}

fn imagenet_mean() -> [f32; 3] {
    ChannelStatistics::IMAGENET.mean
}

fn imagenet_deviation() -> [f32; 3] {
    ChannelStatistics::IMAGENET.deviation
}

impl TorchScriptFile {
    /// Mean and standard deviation of the channels.
    pub(super) fn statistics(&self) -> ChannelStatistics {
        ChannelStatistics { mean: self.mean, deviation: self.deviation }
    }
}

/// Captions that the text tower of CLIP embeds.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmbeddedCaptions {
    /// Captions.
    pub table: TableRef,
    /// Merges of the byte-pair tokeniser: `bpe_simple_vocab_16e6.txt.gz` of OpenAI's CLIP or `open_clip`, packed or not.
    pub merges: SourceRef,
}

/// Output of the network to use as the feature of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeaturePooling {
    /// Global average of the last feature maps (ResNet: input of `fc`; SqueezeNet: output of `features`).
    Average,
    /// Feature vector that the network computes from the feature maps: fc7 of VGG, after its ReLU; the vector of CLIP in
    /// the joint space of images and texts.
    Embedding,
    /// Logits of the 1,000 ImageNet classes.
    Logits,
    /// Averages of the last feature maps over the cells of a square grid with this many cells a side, in place of the
    /// regions of a detector. The stage then writes the table `regions`, row by row of cells, in place of `features`,
    /// and the cells as `region_boxes`. The network sees some pixels around a cell too.
    /// With 224 pixels, ResNet has maps of 7 × 7 values and SqueezeNet of 13 × 13.
    Grid(usize),
    /// Regions that a module of yours returns, this many an image: `(batch_size, regions, width)`. The stage then writes
    /// the table `regions`, without boxes, in place of `features`.
    Regions(usize),
}

/// Precision in which vectors are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VectorStorage {
    /// Single precision, 4 bytes a value.
    #[default]
    F32,
    /// Half precision, 2 bytes a value: 11 significant bits, and at most 65,504. Stages and exports read the values as f32.
    F16,
}

/// Treatment of images that cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUndecodable {
    /// Stops with an error that names the images and the reasons.
    #[default]
    Fail,
    /// Leaves the image out, with a warning. `max_skipped` limits their share.
    Skip,
}
