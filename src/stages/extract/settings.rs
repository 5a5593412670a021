//! The settings of `extract`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::stage::{Cx, Input, Output, Problem, Run, Source, Stage, TableRef};
use crate::tables;

/// Rows of a part of `features`.
const PART_ROWS: usize = 256;

/// Computes feature vectors of images with a convolutional network.
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
    /// Side of the square that is cut from the centre, in pixels.
    #[serde(default = "crop")]
    pub crop: u32,
    /// Images that go through the network together.
    #[serde(default = "batch")]
    pub batch: usize,
    /// What to do about a picture that does not decode.
    #[serde(default)]
    pub on_undecodable: OnUndecodable,
    /// Seed of random weights; the pipeline's where not given.
    #[serde(default)]
    pub seed: u64,
}

/// A network of torchvision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are torchvision's")]
pub enum Network {
    #[serde(rename = "squeezenet1_0")]
    SqueezeNet1_0,
    ResNet18,
    ResNet34,
    ResNet50,
    ResNet101,
    ResNet152,
}

/// Where weights come from.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Weights {
    /// A safetensors file with torchvision's parameter names.
    File(Source),
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

fn batch() -> usize {
    16
}

impl Stage for Extract {
    fn kind(&self) -> &'static str {
        "extract"
    }

    fn version(&self) -> u32 {
        1
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<Input> {
        let mut inputs = vec![Input::table("images", &self.images, tables::images::table().schema())];
        if let Weights::File(file) = &self.weights {
            inputs.push(Input::source("weights.file", file));
        }
        inputs
    }

    fn outputs(&self) -> Vec<Output> {
        vec![Output::table("features", tables::features::table().schema(), PART_ROWS)]
    }

    fn check(&self) -> Vec<Problem> {
        vec![]
    }
}

impl Run for Extract {
    fn run(&self, _cx: &mut Cx<'_>) -> Result<()> {
        Err(Error::internal("extract is being written"))
    }
}
