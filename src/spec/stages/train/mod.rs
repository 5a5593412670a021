//! Settings of `train`.

mod options;
mod problems;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::options::{
    FinetuneSettings, InitialWeights, MemoryBankSettings, MixedDataSet, SameImagePolicy, SamplingMode, SelectionMetric,
    VocabularyCaptions, WarmUp, WordVectorSettings,
};
use crate::family::ModelSettings;
use crate::input_spec::ImageInput;
use crate::loss::{Loss, LossSettings, Objective, SemanticMargin};
use crate::precision::MatmulPrecision;
use crate::stages::image_vectors::image_vectors_input;
use pairloom_kernels::epoch::Shuffle;
use pairloom_kernels::text::Tokenizer;
use pairloom_stage::{Problem, RequiredValues, Stage, StageInput, StageOutput, TableRef};
use pairloom_tables as tables;

/// Trains a model that scores pairs of an image and a caption.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Train {
    /// Feature vectors of the images. One of `features`, `regions` and `finetune` must be set.
    #[serde(default)]
    pub features: Option<TableRef>,
    /// Feature vectors of the regions of the images, for models over regions, instead of `features`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<TableRef>,
    /// Images and a convolutional network that is fine-tuned together with the model, instead of `features`.
    #[serde(default)]
    pub finetune: Option<FinetuneSettings>,
    /// The captions.
    pub captions: TableRef,
    /// Model family and its architecture.
    #[serde(default)]
    pub model: ModelSettings,
    /// Trained model of the same family whose parameters initialise this one, where both have a parameter of that name. It
    /// must have been trained on the same captions. Usual with `finetune`.
    #[serde(default)]
    pub init_from: Option<TableRef>,
    /// Weight of the first data set, where `mixed_with` adds others. Its share of an epoch is this
    /// weight over the sum of all weights.
    #[serde(default = "weight")]
    pub weight: f64,
    /// Additional data sets. An epoch has as many pairs as all data sets together; no pair of a data set is repeated
    /// before all of its pairs were drawn. The vocabulary is built from all data sets; the first one is used for
    /// validation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mixed_with: Vec<MixedDataSet>,
    /// Share of the training captions of each data set that is trained on: the first ones in the order of `captions`,
    /// rounded down. SAM (Biten et al., WACV 2022) compares models that are trained on 3 to 25 % of a data set.
    #[serde(default = "all_captions", skip_serializing_if = "is_all_captions")]
    pub caption_fraction: f64,
    /// Shuffling of the training pairs in an epoch.
    #[serde(default)]
    pub shuffle: Shuffle,
    /// Loss on the scores of a batch.
    #[serde(default)]
    pub loss: Loss,
    /// Triplet loss whose margins follow from the similarity of captions (SAM). Needs `caption_ngrams`.
    #[serde(default)]
    pub semantic_margin: Option<SemanticMargin>,
    /// N-gram vectors of the training captions, from `score_captions` with `pairs = "on_demand"`. φ of the pairs of
    /// each batch is computed from them. It is always CIDEr-D, and a caption is among its own references. Tokens and
    /// weights are those of the stage `score_captions`.
    #[serde(default)]
    pub caption_ngrams: Option<TableRef>,
    /// Concepts of the training captions, from `build_concepts`, for a model that reads them (`cvse`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concepts: Option<TableRef>,
    /// Treatment of pairs of a batch that have the same image.
    #[serde(default)]
    pub same_image: SameImagePolicy,
    /// Warm-up with SUM in the first epochs, in place of the objective.
    #[serde(default)]
    pub warm_up: Option<WarmUp>,
    /// Memory bank for the weights of `hal`.
    #[serde(default)]
    pub memory_bank: Option<MemoryBankSettings>,
    /// Measure on the validation split that selects the best epoch, which becomes the model.
    #[serde(default)]
    pub selection_metric: SelectionMetric,
    /// Number of epochs: passes over the training pairs.
    #[schemars(range(min = 1))]
    pub epochs: u32,
    /// Image-caption pairs of a step, over all ranks.
    #[serde(default = "batch_size")]
    #[schemars(range(min = 2))]
    pub batch_size: usize,
    /// Initial word vectors from a file. Random if not set.
    #[serde(default)]
    pub word_vectors: Option<WordVectorSettings>,
    /// Precision of matrix products. On a CPU, a training in mixed precision measures at its start which library multiplies
    /// faster in a GRU, and keeps that one when it is resumed.
    #[serde(default)]
    pub precision: MatmulPrecision,
    /// Tokenizer of the captions.
    #[serde(default)]
    pub tokenizer: Tokenizer,
    /// Captions that the words of the vocabulary are counted in.
    #[serde(default, skip_serializing_if = "VocabularyCaptions::is_default")]
    pub vocabulary_captions: VocabularyCaptions,
    /// Minimum frequency of a word in the captions of the vocabulary: rarer words become `<unk>`. If more than half of all
    /// tokens are unknown, there is a warning; if all are, an error.
    #[serde(default = "min_count")]
    pub min_count: usize,
    /// Initial learning rate of Adam.
    #[serde(default = "learning_rate")]
    pub learning_rate: f64,
    /// Period of the learning rate decay in epochs: after every period, the rate is multiplied by
    /// `learning_rate_decay`.
    #[serde(default = "learning_rate_decay_epochs")]
    #[schemars(range(min = 1))]
    pub learning_rate_decay_epochs: u32,
    /// Factor of the learning rate decay.
    #[serde(default = "learning_rate_decay")]
    pub learning_rate_decay: f64,
    /// Maximum global L2 norm of the gradient; larger gradients are scaled down to it.
    #[serde(default = "gradient_clip")]
    pub gradient_clip: f64,
    /// Decoupled weight decay of `AdamW`: before a step, parameters are multiplied by 1 − learning rate · weight decay. 0
    /// for Adam.
    #[serde(default)]
    pub weight_decay: f64,
    /// Steps between checkpoints within an epoch; every epoch ends with a checkpoint. Not part of the key: it changes
    /// neither the model nor the rows of any table, only where `history` is cut into parts.
    #[serde(default = "checkpoint_steps")]
    #[schemars(range(min = 1))]
    pub checkpoint_steps: u64,
    /// Number of checkpoints kept while the training runs. If the last one is damaged, the training resumes from the
    /// one before. Each checkpoint also holds the best model so far. Not part of the key.
    #[serde(default = "checkpoints")]
    #[schemars(range(min = 1))]
    pub checkpoints: usize,
    /// Number of processes (ranks) that train together, each on its share of every batch. The result equals that of one
    /// process, up to rounding. The processes are started automatically; under `torchrun` or SLURM, the existing ones
    /// are used. Not part of the key.
    #[serde(default = "ranks")]
    #[schemars(range(min = 1))]
    pub ranks: usize,
    /// Seed of the initial weights and of all random draws. The seed of the pipeline if not set.
    #[serde(default)]
    pub seed: u64,
}

/// Columns of the images to fine-tune on that must have values.
const PICTURES: RequiredValues =
    RequiredValues { columns: &tables::images::PICTURE_COLUMNS, hint: tables::images::PICTURES_HINT };

/// Name of the input with the n-gram vectors of captions.
pub const CAPTION_NGRAMS: &str = "caption_ngrams";

/// Name of the input with word vectors.
pub const WORD_VECTORS_FILE: &str = "word_vectors.file";

/// Name of the input with the concepts.
pub const CONCEPTS: &str = "concepts";

/// Rows per part of `samples`.
const SAMPLE_PART_ROWS: usize = 65_536;

/// Rows per part of `memory_bank`: 64 MiB with vectors of width 1,024.
const MEMORY_BANK_PART_ROWS: usize = 8192;

/// Names of the inputs of a data set.
#[derive(Debug)]
pub struct DataSetInputs {
    /// Input of the features or regions, or of the images for fine-tuning.
    pub images: String,
    /// Input of the captions.
    pub captions: String,
}

impl Train {
    /// Kind of the images that are read from a table.
    #[must_use]
    pub fn image_input(&self) -> ImageInput {
        if self.regions.is_some() { ImageInput::Regions } else { ImageInput::Features }
    }

    /// Features, regions or images, captions, and weight of every data set.
    #[must_use]
    pub fn data_sets(&self) -> Vec<(Option<&TableRef>, &TableRef, f64)> {
        let images = self.finetune.as_ref().map(|finetune| &finetune.images);
        let first = self.features.as_ref().or(self.regions.as_ref()).or(images);
        let first = (first, &self.captions, self.weight);
        let more = self.mixed_with.iter();
        let more = more.map(|set| (set.features.as_ref().or(set.regions.as_ref()), &set.captions, set.weight));
        std::iter::once(first).chain(more).collect()
    }

    /// Names of the inputs of every data set.
    #[must_use]
    pub fn data_set_inputs(&self) -> Vec<DataSetInputs> {
        let name = |set: usize, what: &str| {
            if set == 0 { what.to_owned() } else { format!("mixed_with.{}.{what}", set - 1) }
        };
        let vectors = self.image_input().name();
        let images = |set| if set == 0 && self.finetune.is_some() { "finetune.images" } else { vectors };
        let sets = 0..=self.mixed_with.len();
        sets.map(|set| DataSetInputs { images: name(set, images(set)), captions: name(set, "captions") }).collect()
    }
}

fn ranks() -> usize {
    1
}

fn weight() -> f64 {
    1.0
}

fn all_captions() -> f64 {
    1.0
}

/// Returns true for the default: leaving it out keeps the keys of older results.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
fn is_all_captions(fraction: &f64) -> bool {
    *fraction == all_captions()
}

fn checkpoints() -> usize {
    2
}

fn batch_size() -> usize {
    128
}

fn min_count() -> usize {
    4
}

fn learning_rate() -> f64 {
    2e-4
}

fn learning_rate_decay_epochs() -> u32 {
    15
}

fn learning_rate_decay() -> f64 {
    0.1
}

fn gradient_clip() -> f64 {
    2.0
}

fn checkpoint_steps() -> u64 {
    500
}

impl Stage for Train {
    fn kind(&self) -> &'static str {
        "train"
    }

    /// Version 6: `warm_up` and `same_image` apply to the level losses of CVSE, the inverse temperatures of SCAN follow from
    /// its direction, and the caption branch of VSRN begins with other weights. SGR, SAF, VSRN, VSE∞ and CVSE have other
    /// roundings since.
    fn version(&self) -> u32 {
        match self.model {
            ModelSettings::Sgraf(_) => 8,
            ModelSettings::Vsrn(_) | ModelSettings::VseInfinity(_) | ModelSettings::Cvse(_) => 7,
            _ => 6,
        }
    }

    fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self);
        if let Some(settings) = settings.as_object_mut() {
            settings.remove("checkpoint_steps");
            settings.remove("checkpoints");
            settings.remove("ranks");
            if let (Some(own), Some(written)) = (&self.finetune, settings.get_mut("finetune")) {
                // Defaults of the network are written out: a result is the same, however its settings were chosen.
                written["crop"] = own.crop().into();
                written["resize"] = own.resize().into();
            }
            if self.weight_decay == 0.0 {
                settings.remove("weight_decay");
            }
            if self.mixed_with.is_empty() {
                // A single data set has the whole epoch, whatever its weight.
                settings.remove("weight");
            }
        }
        settings
    }

    fn inputs(&self) -> Vec<StageInput> {
        let pairs = self.data_sets().into_iter().zip(self.data_set_inputs());
        let pairs = pairs.flat_map(|((images, captions, _), names)| {
            let is_finetune = names.images == "finetune.images";
            let images = images.map(|images| {
                if is_finetune {
                    StageInput::table(names.images, images, &tables::images::table()).with_values(PICTURES)
                } else {
                    image_vectors_input(names.images, images, self.image_input())
                }
            });
            let captions = StageInput::table(names.captions, captions, &tables::captions::table());
            images.into_iter().chain([captions])
        });
        let network = self.finetune.iter().filter_map(|finetune| match &finetune.weights {
            InitialWeights::File(file) => Some(StageInput::source("finetune.weights.file", file)),
            InitialWeights::Random => None,
        });
        let initial = self.init_from.iter().map(|model| StageInput::files("init_from", model, "model"));
        let ngrams = self.caption_ngrams.iter();
        let ngrams = ngrams.map(|from| StageInput::table(CAPTION_NGRAMS, from, &tables::caption_ngrams::table()));
        let vectors = self.word_vectors.iter().map(|vectors| StageInput::source(WORD_VECTORS_FILE, &vectors.file));
        let concepts = self.concepts.iter();
        let concepts = concepts.map(|from| StageInput::table(CONCEPTS, from, &tables::concepts::table()));
        pairs.chain(network).chain(initial).chain(ngrams).chain(vectors).chain(concepts).collect()
    }

    fn outputs(&self) -> Vec<StageOutput> {
        let mut outputs = vec![
            StageOutput::files("model"),
            StageOutput::table("data_order", tables::data_order::table().schema(), 4096),
            StageOutput::table("samples", tables::samples::table().schema(), SAMPLE_PART_ROWS),
            StageOutput::table("history", tables::history::table().schema(), 4096),
            StageOutput::table("validation", tables::validation::table().schema(), 4096),
        ];
        let capabilities = self.model.capabilities();
        if !(capabilities.local_losses.is_empty() && capabilities.global_losses.is_empty()) {
            outputs.push(StageOutput::table("auxiliary_losses", tables::auxiliary_losses::table().schema(), 4096));
        }
        if !self.loss.learned_scalars().is_empty() {
            outputs.push(StageOutput::table("loss_scalars", tables::loss_scalars::table().schema(), 4096));
        }
        if self.memory_bank.is_some() {
            outputs.push(StageOutput::table(
                "memory_bank",
                tables::memory_bank::table().schema(),
                MEMORY_BANK_PART_ROWS,
            ));
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
        least("batch_size", self.batch_size as u64, 2);
        least("learning_rate_decay_epochs", self.learning_rate_decay_epochs.into(), 1);
        least("checkpoint_steps", self.checkpoint_steps, 1);
        least("checkpoints", self.checkpoints as u64, 1);
        if let Shuffle::Windows(shards) = self.shuffle {
            least("shuffle.windows", shards as u64, 1);
        }
        for (setting, got) in [
            ("learning_rate", self.learning_rate),
            ("learning_rate_decay", self.learning_rate_decay),
            ("gradient_clip", self.gradient_clip),
        ] {
            if !(got.is_finite() && got > 0.0) {
                problems.push(Problem::new(setting, format!("got {got}, wanted a number above 0")));
            }
        }
        if !(self.weight_decay.is_finite() && self.weight_decay >= 0.0) {
            let message = format!("got {}, wanted 0 or more", self.weight_decay);
            problems.push(Problem::new("weight_decay", message));
        }
        for (i, (_, _, weight)) in self.data_sets().into_iter().enumerate() {
            if !(weight.is_finite() && weight > 0.0) {
                let setting = if i == 0 { "weight".to_owned() } else { format!("mixed_with.{}.weight", i - 1) };
                problems.push(Problem::new(setting, format!("got {weight}, wanted a number above 0")));
            }
        }
        if !(self.caption_fraction > 0.0 && self.caption_fraction <= 1.0) {
            let message = format!("got {}, wanted a share above 0 and at most 1", self.caption_fraction);
            problems.push(Problem::new("caption_fraction", message));
        }
        problems.extend(self.combination_problems());
        let wrong: Vec<String> = problems.iter().map(|problem| problem.setting.clone()).collect();
        problems.extend(self.implausible().into_iter().filter(|warning| !wrong.contains(&warning.setting)));
        problems
    }
}

impl Train {
    /// Objective after the warm-up.
    #[must_use]
    pub fn objective(&self) -> Objective {
        Objective { loss: self.loss.clone(), semantic_margin: self.semantic_margin }
    }
}
