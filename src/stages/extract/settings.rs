//! The settings of `extract`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::model::cnn::Network;
use crate::stage::{Input, Output, Problem, Source, Stage, TableRef};
use crate::tables;

/// Rows of a part of `features`: one to a few seconds of work on two cores for all but the deepest networks.
pub(super) const PART_ROWS: usize = 128;

/// Smallest and largest side of what a network sees. Below, its last maps are empty; above, memory is.
const SIDES: std::ops::RangeInclusive<u32> = 32..=2048;

/// Most values that go into a network together, 128 MiB: 222 images of 224 pixels, 2 of 2048.
const LARGEST_INPUT: u64 = 32 << 20;

/// Computes feature vectors of images with a convolutional network.
///
/// Memory of every thread: the `batch` images as the network sees them (`batch` × 3 × `crop`² values of 4 bytes, at most
/// 128 MiB), their feature maps (some 17 times as much) and one decoded picture. Threads share the weights.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Extract {
    /// The images.
    pub images: TableRef,
    /// The network.
    pub network: Network,
    /// Its weights.
    pub weights: Weights,
    /// What the feature is.
    #[serde(default)]
    pub pooling: Pooling,
    /// Whether the feature is divided by its L2 norm, as VSE++ does before its linear layer.
    #[serde(default)]
    pub normalize: bool,
    /// Shorter side of the image after resizing, in pixels.
    #[serde(default = "resize")]
    pub resize: u32,
    /// Side of the square that is cut from the centre, in pixels. The memory of a thread grows with its square.
    #[serde(default = "crop")]
    pub crop: u32,
    /// Images that go through the network together, in every thread: some 10 MB each at 224 pixels.
    #[serde(default = "batch")]
    pub batch: usize,
    /// What to do about a picture that does not decode.
    #[serde(default)]
    pub on_undecodable: OnUndecodable,
    /// Seed of random weights; the pipeline's where not given.
    #[serde(default)]
    pub seed: u64,
}

/// Where weights come from.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Weights {
    /// A safetensors file with torchvision's parameter names.
    File(Source),
    /// Those that a training with `pictures` ended with: its model.
    Model(TableRef),
    /// Random weights, drawn as torchvision draws them.
    Random,
}

/// What the feature of an image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// Global average of the last feature maps (ResNet: input of `fc`; SqueezeNet: output of `features`).
    #[default]
    Average,
    /// The scores of the 1,000 ImageNet classes.
    Logits,
}

/// What to do about a picture that does not decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUndecodable {
    /// Stop, naming it and the reason.
    #[default]
    Fail,
    /// Leave it out, with a warning.
    Skip,
}

fn resize() -> u32 {
    256
}

fn crop() -> u32 {
    224
}

/// Beyond this the feature maps of SqueezeNet leave the processor's caches.
fn batch() -> usize {
    8
}

impl Stage for Extract {
    fn kind(&self) -> &'static str {
        "extract"
    }

    /// 2: tall pictures are resampled columns first, as Pillow 13 does.
    fn version(&self) -> u32 {
        2
    }

    fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self);
        if let (Weights::File(_) | Weights::Model(_), Some(settings)) = (&self.weights, settings.as_object_mut()) {
            settings.remove("seed");
        }
        settings
    }

    fn inputs(&self) -> Vec<Input> {
        let mut inputs = vec![Input::table("images", &self.images, tables::images::table().schema())];
        match &self.weights {
            Weights::File(file) => inputs.push(Input::source("weights.file", file)),
            Weights::Model(model) => inputs.push(Input::files("weights.model", model)),
            Weights::Random => {}
        }
        inputs
    }

    fn outputs(&self) -> Vec<Output> {
        vec![Output::table("features", tables::features::table().schema_of_width(self.width()), PART_ROWS)]
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if matches!(self.weights, Weights::Model(_)) && !(self.normalize && self.pooling == Pooling::Average) {
            let message = "a model is trained on normalised averages";
            problems.push(
                Problem::new("weights.model", message).hint("set `normalize = true` and `pooling = \"average\"`"),
            );
        }
        for (setting, side) in [("resize", self.resize), ("crop", self.crop)] {
            if !SIDES.contains(&side) {
                let message = format!("{side} pixels, wanted {} to {}", SIDES.start(), SIDES.end());
                problems.push(Problem::new(setting, message));
            }
        }
        if self.crop > self.resize {
            let message = format!("a square of {} pixels does not fit a side of {}", self.crop, self.resize);
            problems.push(Problem::new("crop", message).hint("make `crop` at most `resize`"));
        }
        if self.batch == 0 {
            problems.push(Problem::new("batch", "0 images, wanted at least 1"));
        }
        // A side out of bounds has its own message, and may be 0.
        let image = 3 * u64::from(self.crop).pow(2);
        let values = (self.batch as u64).saturating_mul(image);
        if SIDES.contains(&self.crop) && values > LARGEST_INPUT {
            let message = format!(
                "{} images × 3 × {crop}² pixels are {values} values at once in every thread, wanted at most \
                 {LARGEST_INPUT} (128 MiB)",
                self.batch,
                crop = self.crop,
            );
            problems.push(Problem::new("batch", message).hint(format!("make it at most {}", LARGEST_INPUT / image)));
        }
        problems
    }
}

impl Extract {
    /// Values of a feature.
    #[must_use]
    pub fn width(&self) -> usize {
        let network = self.network.architecture();
        match self.pooling {
            Pooling::Average => network.width,
            Pooling::Logits => network.classes,
        }
    }
}
