//! Settings of `extract`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::model::cnn::Network;
use crate::runtime::MAX_RANKS;
use crate::stage::{Problem, RequiredValues, SourceRef, Stage, StageInput, StageOutput, TableRef};
use crate::tables;

/// Number of rows of a part of `features`: a few seconds of work on two cores, except for the deepest networks.
pub(super) const PART_ROWS: usize = 128;

/// Output with the boxes of a grid.
pub(super) const BOXES: &str = "region_boxes";

/// Allowed sides of an input of the network, in pixels. Smaller inputs give empty feature maps in the last layers;
/// larger inputs need too much memory.
const SIDES: std::ops::RangeInclusive<u32> = 32..=2048;

/// Allowed numbers of cells of a side of a grid.
const GRID_SIDES: std::ops::RangeInclusive<usize> = 1..=64;

/// Columns of the images that must have values.
const PICTURES: RequiredValues =
    RequiredValues { columns: &tables::images::PICTURE_COLUMNS, hint: tables::images::PICTURES_HINT };

/// Maximum number of values of a batch, 128 MiB: 222 images of 224 pixels, or 2 of 2048.
const MAX_INPUT_VALUES: u64 = 32 << 20;

/// Computes feature vectors of images with a convolutional network.
///
/// Memory of every thread: the input of the network for `batch_size` images (`batch_size` × 3 × `crop`² values of 4
/// bytes, at most 128 MiB), their feature maps (some 17 times as much) and one decoded image. Threads share the
/// weights.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Extract {
    /// Images.
    pub images: TableRef,
    /// Network.
    pub network: Network,
    /// Weights of the network.
    pub weights: WeightSource,
    /// Output of the network to use as the feature.
    #[serde(default)]
    pub pooling: FeaturePooling,
    /// True if features are divided by their L2 norm, as VSE++ does before its linear layer.
    #[serde(default)]
    pub normalize: bool,
    /// Shorter side of the image after resizing, in pixels.
    #[serde(default = "default_resize")]
    pub resize: u32,
    /// Side of the centre crop, a square, in pixels. The memory of a thread grows with the square of the side.
    #[serde(default = "default_crop")]
    pub crop: u32,
    /// Number of images in a batch of a thread. An image takes some 10 MB at 224 pixels.
    #[serde(default = "default_batch_size")]
    pub batch_size: usize,
    /// Treatment of images that cannot be decoded.
    #[serde(default)]
    pub on_undecodable: OnUndecodable,
    /// Largest share of the images that `on_undecodable = "skip"` may leave out. If more are left out, or all of them,
    /// the stage fails.
    #[serde(default = "default_max_skipped", skip_serializing_if = "is_default_max_skipped")]
    pub max_skipped: f64,
    /// Seed of random weights; by default the pipeline's seed.
    #[serde(default)]
    pub seed: u64,
    /// Number of processes (ranks) that extract together, each its share of the images. With 1, a program that was launched
    /// as several ranks (`torchrun`, SLURM) uses all of them. The result is that of one process. It is not part of the
    /// key.
    #[serde(default = "ranks")]
    pub ranks: usize,
}

fn ranks() -> usize {
    1
}

/// Source of the weights.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WeightSource {
    /// A safetensors file with torchvision's parameter names.
    File(SourceRef),
    /// Weights of a model of `train` with the setting `finetune`.
    Model(TableRef),
    /// Random weights, drawn as torchvision draws them.
    Random,
}

/// Output of the network to use as the feature of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeaturePooling {
    /// Global average of the last feature maps (ResNet: input of `fc`; SqueezeNet: output of `features`).
    #[default]
    Average,
    /// Logits of the 1,000 ImageNet classes.
    Logits,
    /// Averages of the last feature maps over the cells of a square grid with this many cells a side, in place of the
    /// regions of a detector. The stage then writes the table `regions`, row by row of cells, in place of `features`,
    /// and the cells as `region_boxes`. The network sees some pixels around a cell too.
    /// With 224 pixels, ResNet has maps of 7 × 7 values and SqueezeNet of 13 × 13.
    Grid(usize),
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

fn default_resize() -> u32 {
    256
}

fn default_crop() -> u32 {
    224
}

/// Default batch size. With larger batches, the feature maps of SqueezeNet do not fit the caches of the CPU.
fn default_batch_size() -> usize {
    8
}

/// Default of [`Extract::max_skipped`].
fn default_max_skipped() -> f64 {
    0.1
}

/// Returns true for the default of a setting that was added later: leaving it out keeps the keys of older results.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
fn is_default_max_skipped(share: &f64) -> bool {
    *share == default_max_skipped()
}

impl Stage for Extract {
    fn kind(&self) -> &'static str {
        "extract"
    }

    /// Version 2: tall images are resampled vertically first, as Pillow 13 does. Version 3: a grid has boxes.
    fn version(&self) -> u32 {
        match self.pooling {
            FeaturePooling::Grid(_) => 3,
            FeaturePooling::Average | FeaturePooling::Logits => 2,
        }
    }

    fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self);
        if let Some(settings) = settings.as_object_mut() {
            settings.remove("ranks");
            if let WeightSource::File(_) | WeightSource::Model(_) = &self.weights {
                settings.remove("seed");
            }
        }
        settings
    }

    fn inputs(&self) -> Vec<StageInput> {
        let images = StageInput::table("images", &self.images, &tables::images::table());
        let mut inputs = vec![images.with_values(PICTURES)];
        match &self.weights {
            WeightSource::File(file) => inputs.push(StageInput::source("weights.file", file)),
            WeightSource::Model(model) => inputs.push(StageInput::files("weights.model", model, "model")),
            WeightSource::Random => {}
        }
        inputs
    }

    fn outputs(&self) -> Vec<StageOutput> {
        let table = |schema| StageOutput::table(self.output_name(), schema, PART_ROWS);
        match self.pooling {
            FeaturePooling::Grid(side) => {
                let boxes = tables::region_boxes::table().schema_with_shape(&[side * side, 4]);
                vec![
                    table(tables::regions::table().schema_with_shape(&[side * side, self.width()])),
                    StageOutput::table(BOXES, boxes, PART_ROWS),
                ]
            }
            FeaturePooling::Average | FeaturePooling::Logits => {
                vec![table(tables::features::table().schema_with_width(self.width()))]
            }
        }
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if matches!(self.weights, WeightSource::Model(_))
            && !(self.normalize && self.pooling == FeaturePooling::Average)
        {
            let message = "the model was trained on normalised averages";
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
        if let FeaturePooling::Grid(side) = self.pooling
            && !GRID_SIDES.contains(&side)
        {
            let message = format!("got {side} cells a side, wanted {} to {}", GRID_SIDES.start(), GRID_SIDES.end());
            problems.push(Problem::new("pooling.grid", message));
        }
        if self.crop > self.resize {
            let message = format!("a square of {} pixels does not fit a side of {}", self.crop, self.resize);
            problems.push(Problem::new("crop", message).hint("make `crop` at most `resize`"));
        }
        if !(0.0..=1.0).contains(&self.max_skipped) {
            problems.push(Problem::new("max_skipped", format!("got {}, wanted 0 to 1", self.max_skipped)));
        } else if self.max_skipped != default_max_skipped() && self.on_undecodable == OnUndecodable::Fail {
            let message = "it limits the images that are left out, but none are";
            problems.push(Problem::new("max_skipped", message).hint("set `on_undecodable = \"skip\"` too"));
        }
        if !(1..=MAX_RANKS).contains(&self.ranks) {
            problems.push(Problem::new("ranks", format!("got {}, wanted 1 to {MAX_RANKS}", self.ranks)));
        }
        if self.batch_size == 0 {
            problems.push(Problem::new("batch_size", "0 images, wanted at least 1"));
        }
        // An invalid side was reported above. It may be 0, so it is excluded before the division.
        let image = 3 * u64::from(self.crop).pow(2);
        let values = (self.batch_size as u64).saturating_mul(image);
        if SIDES.contains(&self.crop) && values > MAX_INPUT_VALUES {
            let message = format!(
                "{} images × 3 × {crop}² pixels are {values} values at once in every thread, wanted at most \
                 {MAX_INPUT_VALUES} (128 MiB)",
                self.batch_size,
                crop = self.crop,
            );
            problems.push(
                Problem::new("batch_size", message).hint(format!("make it at most {}", MAX_INPUT_VALUES / image)),
            );
        }
        problems
    }
}

impl Extract {
    /// Name of the table that the stage writes.
    #[must_use]
    pub fn output_name(&self) -> &'static str {
        match self.pooling {
            FeaturePooling::Grid(_) => "regions",
            FeaturePooling::Average | FeaturePooling::Logits => "features",
        }
    }

    /// Width of a feature vector.
    #[must_use]
    pub fn width(&self) -> usize {
        let network = self.network.architecture();
        match self.pooling {
            FeaturePooling::Average | FeaturePooling::Grid(_) => network.width,
            FeaturePooling::Logits => network.classes,
        }
    }
}
