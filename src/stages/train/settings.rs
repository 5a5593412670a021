//! The settings of `train`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::options::{Bank, DataSet, Pictures, SameImage, Select, WarmUp, Weights, WordVectors};
use crate::kernels::epoch::Order;
use crate::kernels::text::Tokenizer;
use crate::model::encoder::Precision;
use crate::model::family::list;
use crate::model::loss::{Loss, Objective, SemanticMargin};
use crate::stage::{Input, Output, Problem, Stage, TableRef};
use crate::tables;

/// Trains a model that scores images and captions.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Train {
    /// Feature vectors of the images. This or `pictures`.
    #[serde(default)]
    pub features: Option<TableRef>,
    /// The images themselves, with a network that is trained with the rest ("fine-tuned").
    #[serde(default)]
    pub pictures: Option<Pictures>,
    /// The captions.
    pub captions: TableRef,
    /// The model: its family, and what it is made of.
    #[serde(default)]
    pub model: list::Settings,
    /// A model to begin with, of another training on the same captions: its parameters, as far as this one has them. Usual
    /// before `pictures`.
    #[serde(default)]
    pub start: Option<TableRef>,
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
    /// Margins that follow from what captions say, in triplets of their own (SAM). Wants `caption_ngrams`.
    #[serde(default)]
    pub semantic_margin: Option<SemanticMargin>,
    /// The training captions as vectors, from a `compare` with `form = "on_demand"`: φ of the pairs of each batch follows
    /// from them. It is CIDEr-D with a caption among its own references, whatever that stage's measure; tokens and weights
    /// are those of that stage.
    #[serde(default)]
    pub caption_ngrams: Option<TableRef>,
    /// What becomes of other captions of an image that are in a batch with it.
    #[serde(default)]
    pub same_image: SameImage,
    /// SUM in the first epochs, whatever the objective.
    #[serde(default)]
    pub warm_up: Option<WarmUp>,
    /// A memory bank, for the weights of `hal`.
    #[serde(default)]
    pub bank: Option<Bank>,
    /// Measure that the best epoch is chosen by, on the validation split.
    #[serde(default)]
    pub select: Select,
    /// Passes over the training captions.
    pub epochs: u32,
    /// Image-caption pairs of a step.
    #[serde(default = "batch")]
    pub batch: usize,
    /// Vectors that words begin with; random ones where not given.
    #[serde(default)]
    pub word_vectors: Option<WordVectors>,
    /// What matrix products are computed in.
    #[serde(default)]
    pub precision: Precision,
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
    /// Processes that train together, each on its share of every batch, so that the result is that of one up to rounding. They
    /// are started here; under `torchrun` or SLURM those that it started are used. Not in the key.
    #[serde(default = "ranks")]
    pub ranks: usize,
    /// Seed of weights and order; the pipeline's where not given.
    #[serde(default)]
    pub seed: u64,
}

/// The input that has the captions as vectors.
pub(super) const CAPTION_NGRAMS: &str = "caption_ngrams";

/// Rows of a part of `samples`.
const SAMPLE_PART_ROWS: usize = 65_536;

/// Rows of a part of `memory_bank`: 64 MiB of vectors of 1,024.
const BANK_PART_ROWS: usize = 8192;

/// The inputs of a data set.
pub(super) struct Names {
    /// Its features, or its pictures.
    pub images: String,
    /// Its captions.
    pub captions: String,
}

impl Train {
    /// All data sets: features, captions, weight.
    pub(super) fn sets(&self) -> Vec<(Option<&TableRef>, &TableRef, f64)> {
        let images = self.pictures.as_ref().map(|pictures| &pictures.images);
        let first = (self.features.as_ref().or(images), &self.captions, self.weight);
        let more = self.mixed_with.iter().map(|set| (Some(&set.features), &set.captions, set.weight));
        std::iter::once(first).chain(more).collect()
    }

    /// What the inputs of the data sets are called.
    pub(super) fn names(&self) -> Vec<Names> {
        let name = |set: usize, what: &str| {
            if set == 0 { what.to_owned() } else { format!("mixed_with.{}.{what}", set - 1) }
        };
        let images = |set| if set == 0 && self.pictures.is_some() { "pictures.images" } else { "features" };
        let sets = 0..=self.mixed_with.len();
        sets.map(|set| Names { images: name(set, images(set)), captions: name(set, "captions") }).collect()
    }
}

fn ranks() -> usize {
    1
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
        4
    }

    fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self);
        if let Some(settings) = settings.as_object_mut() {
            settings.remove("checkpoint_steps");
            settings.remove("checkpoints");
            settings.remove("ranks");
            if self.mixed_with.is_empty() {
                // The share of the only data set is all of it.
                settings.remove("weight");
            }
        }
        settings
    }

    fn inputs(&self) -> Vec<Input> {
        let pairs = self.sets().into_iter().zip(self.names());
        let pairs = pairs.flat_map(|((images, captions, _), names)| {
            let pictures = names.images == "pictures.images";
            let wanted = if pictures { tables::images::table() } else { tables::features::table() }.schema();
            let images = images.map(|images| Input::table(names.images, images, wanted));
            let captions = Input::table(names.captions, captions, tables::captions::table().schema());
            images.into_iter().chain([captions])
        });
        let network = self.pictures.iter().filter_map(|pictures| match &pictures.weights {
            Weights::File(file) => Some(Input::source("pictures.weights.file", file)),
            Weights::Random => None,
        });
        let start = self.start.iter().map(|model| Input::files("start", model));
        let ngrams = self.caption_ngrams.iter();
        let ngrams = ngrams.map(|from| Input::table(CAPTION_NGRAMS, from, tables::caption_ngrams::table().schema()));
        let vectors = self.word_vectors.iter().map(|vectors| Input::source("word_vectors.file", &vectors.file));
        pairs.chain(network).chain(start).chain(ngrams).chain(vectors).collect()
    }

    fn outputs(&self) -> Vec<Output> {
        let mut outputs = vec![
            Output::files("model"),
            Output::table("plan", tables::plan::table().schema(), 4096),
            Output::table("samples", tables::samples::table().schema(), SAMPLE_PART_ROWS),
            Output::table("history", tables::history::table().schema(), 4096),
            Output::table("validation", tables::validation::table().schema(), 4096),
        ];
        if !self.model.capabilities().losses.is_empty() {
            outputs.push(Output::table("auxiliary_losses", tables::auxiliary_losses::table().schema(), 4096));
        }
        if self.bank.is_some() {
            outputs.push(Output::table("memory_bank", tables::memory_bank::table().schema(), BANK_PART_ROWS));
        }
        outputs
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
        least("decay_epochs", self.decay_epochs.into(), 1);
        least("checkpoint_steps", self.checkpoint_steps, 1);
        least("checkpoints", self.checkpoints as u64, 1);
        if let Order::Windows(shards) = self.order {
            least("order.windows", shards as u64, 1);
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
        problems.extend(self.problems_of_parts());
        problems
    }
}

impl Train {
    /// The objective after the warm-up.
    pub(super) fn objective(&self) -> Objective {
        Objective { loss: self.loss.clone(), semantic_margin: self.semantic_margin }
    }
}
