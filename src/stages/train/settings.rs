//! The settings of `train`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::loss::Loss;
use crate::model::trained::Tokenizer;
use crate::stage::{Input, Output, Problem, Stage, TableRef};
use crate::tables;

/// Trains a joint embedding of images and captions (VSE++: Faghri et al., BMVC 2018).
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Train {
    /// Feature vectors of the images.
    pub features: TableRef,
    /// The captions.
    pub captions: TableRef,
    /// The objective.
    #[serde(default)]
    pub loss: Loss,
    /// Passes over the training captions.
    pub epochs: u32,
    /// Image-caption pairs of a step.
    #[serde(default = "batch")]
    pub batch: usize,
    /// Width of the joint space.
    #[serde(default = "embedding")]
    pub embedding: usize,
    /// Width of word vectors.
    #[serde(default = "word")]
    pub word: usize,
    /// How captions become words.
    #[serde(default)]
    pub tokenizer: Tokenizer,
    /// Words of the training captions seen fewer times than this become `<unk>`. A person is told if that is
    /// more than half of the text; if it is all of it, the training is refused.
    #[serde(default = "min_count")]
    pub min_count: usize,
    /// Learning rate of Adam.
    #[serde(default = "learning_rate")]
    pub learning_rate: f64,
    /// Epochs after which the learning rate is multiplied by `decay`, again and again.
    #[serde(default = "decay_epochs")]
    pub decay_epochs: u32,
    /// Factor of the learning rate.
    #[serde(default = "decay")]
    pub decay: f64,
    /// Largest global L2 norm of the gradient.
    #[serde(default = "clip")]
    pub clip: f64,
    /// Steps between checkpoints inside an epoch; every epoch ends with one. Not in the key: it moves the places where
    /// `history` is cut into parts, and changes neither a row nor the model.
    #[serde(default = "checkpoint_steps")]
    pub checkpoint_steps: u64,
    /// Seed of weights and order; the pipeline's where not given.
    #[serde(default)]
    pub seed: u64,
}

/// The widest layer: its recurrent weights fill 3 GiB.
const WIDEST: usize = 16_384;

fn batch() -> usize {
    128
}

fn embedding() -> usize {
    1024
}

fn word() -> usize {
    300
}

fn min_count() -> usize {
    4
}

fn learning_rate() -> f64 {
    2e-4
}

fn decay_epochs() -> u32 {
    15
}

fn decay() -> f64 {
    0.1
}

fn clip() -> f64 {
    2.0
}

fn checkpoint_steps() -> u64 {
    500
}

impl Stage for Train {
    fn kind(&self) -> &'static str {
        "train"
    }

    fn version(&self) -> u32 {
        1
    }

    fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self);
        if let Some(settings) = settings.as_object_mut() {
            settings.remove("checkpoint_steps");
        }
        settings
    }

    fn inputs(&self) -> Vec<Input> {
        vec![
            Input::table("features", &self.features, tables::features::table().schema()),
            Input::table("captions", &self.captions, tables::captions::table().schema()),
        ]
    }

    fn outputs(&self) -> Vec<Output> {
        vec![
            Output::files("model"),
            Output::table("history", tables::history::table().schema(), 4096),
            Output::table("validation", tables::validation::table().schema(), 4096),
        ]
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut least = |setting: &str, got: u64, wanted: u64| {
            if got < wanted {
                problems.push(Problem::new(setting, format!("got {got}, wanted at least {wanted}")));
            }
        };
        least("epochs", self.epochs.into(), 1);
        least("batch", self.batch as u64, 2);
        least("embedding", self.embedding as u64, 1);
        least("word", self.word as u64, 1);
        least("decay_epochs", self.decay_epochs.into(), 1);
        least("checkpoint_steps", self.checkpoint_steps, 1);
        for (setting, got) in [("embedding", self.embedding), ("word", self.word)] {
            if got > WIDEST {
                problems.push(Problem::new(setting, format!("got {got}, wanted at most {WIDEST}")));
            }
        }
        for (setting, got) in [("learning_rate", self.learning_rate), ("decay", self.decay), ("clip", self.clip)] {
            if !(got.is_finite() && got > 0.0) {
                problems.push(Problem::new(setting, format!("got {got}, wanted a number above 0")));
            }
        }
        problems.extend(self.loss.problem().map(|message| Problem::new("loss", message)));
        problems
    }
}
