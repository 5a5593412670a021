//! The settings of `train`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kernels::epoch;
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
    /// Share of an epoch that comes from `features` and `captions`, where others are mixed in: this over the sum of all
    /// weights.
    #[serde(default = "weight")]
    pub weight: f64,
    /// More data sets to train on. An epoch has as many samples as all of them together; a data set is gone through before
    /// one of its samples comes again. The vocabulary is that of all, validation is that of the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mixed_with: Vec<DataSet>,
    /// How the samples of an epoch are shuffled.
    #[serde(default)]
    pub order: Order,
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
    /// Checkpoints that are kept while the training runs: if the last one turns out damaged, it goes on from the one before.
    /// Each also holds the best model so far. Not in the key.
    #[serde(default = "checkpoints")]
    pub checkpoints: usize,
    /// Seed of weights and order; the pipeline's where not given.
    #[serde(default)]
    pub seed: u64,
}

/// A data set that is mixed in.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DataSet {
    /// Feature vectors of the images, as wide as those of the others.
    pub features: TableRef,
    /// The captions.
    pub captions: TableRef,
    /// Share of an epoch that comes from it: this over the sum of all weights.
    pub weight: f64,
}

/// How the samples of an epoch are shuffled. The order is a function of the seed and the epoch, wherever the store lies and
/// however often a training is resumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// All samples at once: any order can come out. All shards are needed all the time, so they must fit the cache.
    #[default]
    Global,
    /// The shards (parts of `features`), and then the samples of each that many shards that follow each other. For data that
    /// does not fit the cache: two windows of shards must, or four batches if those are more, beside the samples.
    Windows(usize),
}

impl Order {
    pub(super) fn kernel(self) -> epoch::Order {
        match self {
            Self::Global => epoch::Order::Global,
            Self::Windows(shards) => epoch::Order::Windows(shards),
        }
    }
}

/// The widest layer: its recurrent weights fill 3 GiB.
const WIDEST: usize = 16_384;

/// Rows of a part of `samples`.
const SAMPLE_PART_ROWS: usize = 65_536;

/// The inputs of a data set.
pub(super) struct Names {
    /// Its features.
    pub features: String,
    /// Its captions.
    pub captions: String,
}

impl Train {
    /// All data sets: features, captions, weight.
    pub(super) fn sets(&self) -> Vec<(&TableRef, &TableRef, f64)> {
        let first = (&self.features, &self.captions, self.weight);
        let more = self.mixed_with.iter().map(|set| (&set.features, &set.captions, set.weight));
        std::iter::once(first).chain(more).collect()
    }

    /// What the inputs of the data sets are called.
    pub(super) fn names(&self) -> Vec<Names> {
        let name = |set: usize, what: &str| {
            if set == 0 { what.to_owned() } else { format!("mixed_with.{}.{what}", set - 1) }
        };
        let sets = 0..=self.mixed_with.len();
        sets.map(|set| Names { features: name(set, "features"), captions: name(set, "captions") }).collect()
    }
}

fn weight() -> f64 {
    1.0
}

fn checkpoints() -> usize {
    2
}

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
        2
    }

    fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self);
        if let Some(settings) = settings.as_object_mut() {
            settings.remove("checkpoint_steps");
            settings.remove("checkpoints");
            if self.mixed_with.is_empty() {
                // The share of the only data set is all of it.
                settings.remove("weight");
            }
        }
        settings
    }

    fn inputs(&self) -> Vec<Input> {
        let pairs = self.sets().into_iter().zip(self.names());
        pairs
            .flat_map(|((features, captions, _), names)| {
                [
                    Input::table(names.features, features, tables::features::table().schema()),
                    Input::table(names.captions, captions, tables::captions::table().schema()),
                ]
            })
            .collect()
    }

    fn outputs(&self) -> Vec<Output> {
        vec![
            Output::files("model"),
            Output::table("plan", tables::plan::table().schema(), 4096),
            Output::table("samples", tables::samples::table().schema(), SAMPLE_PART_ROWS),
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
        least("checkpoints", self.checkpoints as u64, 1);
        if let Order::Windows(shards) = self.order {
            least("order.windows", shards as u64, 1);
        }
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
        for (i, (_, _, weight)) in self.sets().into_iter().enumerate() {
            if !(weight.is_finite() && weight > 0.0) {
                let setting = if i == 0 { "weight".to_owned() } else { format!("mixed_with.{}.weight", i - 1) };
                problems.push(Problem::new(setting, format!("got {weight}, wanted a number above 0")));
            }
        }
        let wrong = self.loss.problems(self.batch).into_iter();
        problems.extend(wrong.map(|(setting, message)| Problem::new(format!("loss.{setting}"), message)));
        problems
    }
}
