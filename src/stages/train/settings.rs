//! The settings of `train`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::options::{Bank, DataSet, Order, Pictures, SameImage, WarmUp, Weights, WordVectors};
use super::relevance;
use super::validate::Select;
use crate::model::encoder::Precision;
use crate::model::form::Pooling;
use crate::model::loss::{Loss, Objective, SemanticMargin, Variant};
use crate::model::similarity::Similarity;
use crate::model::trained::Tokenizer;
use crate::stage::{Input, Output, Problem, Stage, TableRef};
use crate::tables;

/// Trains a joint embedding of images and captions (VSE++: Faghri et al., BMVC 2018).
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
    /// What scores are: of an image and a caption, in training and in validation.
    #[serde(default)]
    pub similarity: Similarity,
    /// What the best epoch is chosen by, on the validation split.
    #[serde(default)]
    pub select: Select,
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
    /// Whether captions are read from both ends.
    #[serde(default)]
    pub bidirectional: bool,
    /// How the states of the words of a caption become its vector.
    #[serde(default)]
    pub pooling: Pooling,
    /// Vectors that words begin with; random ones where not given. With `bidirectional`, both directions read the same ones.
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

/// The widest layer: its recurrent weights fill 3 GiB.
const WIDEST: usize = 16_384;

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
        let ngrams = ngrams.map(|from| Input::table(relevance::INPUT, from, tables::caption_ngrams::table().schema()));
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
        problems.extend(self.image_problems());
        problems.extend(self.objective_problems());
        problems
    }
}

impl Train {
    /// The objective after the warm-up.
    pub(super) fn objective(&self) -> Objective {
        Objective { loss: self.loss.clone(), semantic_margin: self.semantic_margin.clone() }
    }

    /// What is wrong with where images come from.
    fn image_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        match (&self.features, &self.pictures) {
            (None, None) => {
                let message = "no images: wanted `features`, or `pictures`";
                problems.push(Problem::new("features", message).hint("`features = \"cnn.features\"`"));
            }
            (Some(_), Some(_)) => {
                let message = "given beside `features`: wanted one of the two";
                problems.push(Problem::new("pictures", message));
            }
            (None, Some(pictures)) => {
                problems.extend(pictures.problems());
                if !self.mixed_with.is_empty() {
                    let message = "not with `pictures`: only data sets of features can be mixed";
                    problems.push(Problem::new("mixed_with", message));
                }
            }
            (Some(_), None) => {}
        }
        problems
    }

    /// What is wrong with the objective and what it needs.
    fn objective_problems(&self) -> Vec<Problem> {
        // A batch without negatives is told of above.
        let wrong = self.objective().problems(self.batch.max(2)).into_iter();
        let mut problems: Vec<Problem> = wrong.map(|(setting, message)| Problem::new(setting, message)).collect();
        problems.extend(self.bank.iter().flat_map(Bank::problems));
        if self.bank.is_some() && !matches!(self.loss, Loss::Hal { .. }) {
            let message = "a memory bank gives `hal` its weights, and no other objective";
            problems.push(Problem::new("bank", message).hint("leave it out, or train with `loss = { hal = {} }`"));
        }
        let wants = self.semantic_margin.is_some() || self.select.wants_relevance();
        if let Some(bank) = self.bank.as_ref().filter(|bank| bank.first_epoch >= u64::from(self.epochs)) {
            let (got, epochs) = (bank.first_epoch, self.epochs);
            let message = format!("got {got}, wanted less than {epochs}, the epochs of the training");
            problems.push(Problem::new("bank.first_epoch", message).hint("epochs are counted from 0"));
        }
        if self.bank.is_some() && self.semantic_margin.as_ref().is_some_and(|margin| !margin.keep_triplet) {
            let message = "with `keep_triplet = false` in `semantic_margin` nothing asks for the weights of a bank";
            problems.push(Problem::new("bank", message).hint("leave it out, or keep the loss"));
        }
        if let (Loss::Hal { epsilon, variant, .. }, Similarity::Order { .. }) = (&self.loss, self.similarity) {
            if *variant == Variant::Official {
                let message = "the published code raises no score below 0, and order similarities are never above: nothing is learned";
                problems
                    .push(Problem::new("loss.hal.variant", message).hint("`variant = \"paper\"` with `epsilon = 0.0`"));
            } else if *epsilon > 0.0 {
                let message =
                    format!("got {epsilon}: order similarities are never above 0, so that no negative would count");
                problems.push(Problem::new("loss.hal.epsilon", message).hint("`epsilon = 0.0`"));
            }
        }
        match (&self.semantic_margin, &self.caption_ngrams) {
            (None, None) if wants => {
                let message = "NCS follows from captions as vectors, and `caption_ngrams` is not given";
                problems.push(Problem::new("select", message).hint(
                    "add a stage `compare` with `split = \"train+val\"`, `measure = { cider_d = {} }`, `form = \"on_demand\"`",
                ));
            }
            (Some(_), None) => {
                let message = "semantic margins follow from captions as vectors, and `caption_ngrams` is not given";
                problems.push(Problem::new("semantic_margin", message).hint(
                    "add a stage `compare` with `split = \"train\"`, `measure = { cider_d = {} }`, `form = \"on_demand\"`",
                ));
            }
            (None, Some(_)) if !wants => {
                let message = "nothing asks for φ of captions: there is no `semantic_margin`";
                problems.push(Problem::new("caption_ngrams", message));
            }
            _ => {}
        }
        if self.semantic_margin.is_some() && !self.mixed_with.is_empty() {
            let message = "not with `mixed_with`: captions of several data sets have no φ in common";
            problems.push(Problem::new("semantic_margin", message));
        }
        if let Some(WarmUp { epochs, margin }) = self.warm_up {
            if epochs == 0 {
                problems.push(Problem::new("warm_up.epochs", "got 0, wanted at least 1"));
            }
            if epochs >= self.epochs && self.epochs > 0 {
                let message = format!("got {epochs}, wanted fewer than the {} epochs of the training", self.epochs);
                problems.push(Problem::new("warm_up.epochs", message).hint("after it comes the objective"));
            }
            if !(margin.is_finite() && margin >= 0.0) {
                problems.push(Problem::new("warm_up.margin", format!("got {margin}, wanted 0 or more")));
            }
        }
        if self.ranks == 0 || self.ranks > self.batch {
            let message = format!("got {}, wanted 1 to {}, the pairs of a batch", self.ranks, self.batch);
            problems.push(Problem::new("ranks", message));
        }
        problems
    }
}
