//! Settings of `train`.

mod problems;

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::family::{BatchNormStatistics, ModelSettings};
use crate::input_spec::ImageInput;
use crate::loss::sum::SumLoss;
use crate::loss::{Loss, LossSettings, MemoryBankMask, MemoryBankWeights, Objective, SemanticMargin};
use crate::networks::Network;
use crate::precision::{MatmulPrecision, ProductBackend};
use crate::stages::facts::{ModelFacts, VectorWidth};
use crate::stages::{image_vectors, image_vectors_input};
use pairloom_kernels::epoch::{MemoryBankSampling, Shuffle};
use pairloom_kernels::text::Tokenizer;
use pairloom_stage::{
    KnownFacts, OutputFact, Problem, RequiredValues, SourceRef, Stage, StageInput, StageOutput, TableRef,
};
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
    /// Precision of matrix products.
    #[serde(default)]
    pub precision: MatmulPrecision,
    /// Library of the matrix products, for `precision = "mixed"` on a CPU.
    #[serde(default, skip_serializing_if = "ProductBackend::is_auto")]
    pub product_backend: ProductBackend,
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
            if let Some(revision) = self.tokenizer.revision() {
                settings.insert("tokenizer_revision".to_owned(), revision.into());
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
        if self.memory_bank.as_ref().is_some_and(|bank| bank.keep != KeptBanks::None) {
            outputs.push(StageOutput::table(
                "memory_bank",
                tables::memory_bank::table().schema(),
                MEMORY_BANK_PART_ROWS,
            ));
        }
        outputs
    }

    fn facts(&self, known: &KnownFacts) -> Vec<OutputFact> {
        let images = image_vectors(self.features.as_ref(), self.regions.as_ref());
        let trained_on = images.and_then(|(from, _)| Some((from.clone(), *known.get::<VectorWidth>(from)?)));
        let (family, capabilities) = (self.model.name(), self.model.capabilities());
        let facts = ModelFacts { family, capabilities, is_imported: false, trained_on };
        vec![OutputFact::new("model", facts)]
    }

    fn check_inputs(&self, known: &KnownFacts) -> Vec<Problem> {
        let initial = self.init_from.as_ref().and_then(|from| known.get::<ModelFacts>(from));
        initial.and_then(|model| self.initial_family_problem(model.family)).into_iter().collect()
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut least = |setting: &str, got: u64, expected: u64| {
            if got < expected {
                problems.push(Problem::new(setting, format!("got {got}, expected at least {expected}")));
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
                problems.push(Problem::new(setting, format!("got {got}, expected a number above 0")));
            }
        }
        if !(self.weight_decay.is_finite() && self.weight_decay >= 0.0) {
            let message = format!("got {}, expected 0 or more", self.weight_decay);
            problems.push(Problem::new("weight_decay", message));
        }
        for (i, (_, _, weight)) in self.data_sets().into_iter().enumerate() {
            if !(weight.is_finite() && weight > 0.0) {
                let setting = if i == 0 { "weight".to_owned() } else { format!("mixed_with.{}.weight", i - 1) };
                problems.push(Problem::new(setting, format!("got {weight}, expected a number above 0")));
            }
        }
        if !(self.caption_fraction > 0.0 && self.caption_fraction <= 1.0) {
            let message = format!("got {}, expected a share above 0 and at most 1", self.caption_fraction);
            problems.push(Problem::new("caption_fraction", message));
        }
        problems.extend(self.implausible());
        problems.extend(self.combination_problems());
        // A value that is refused is not warned about too.
        let refused = problems.iter().filter(|problem| !problem.is_warning());
        let refused: HashSet<String> = refused.map(|problem| problem.setting.clone()).collect();
        problems.retain(|problem| !problem.is_warning() || !refused.contains(&problem.setting));
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

/// Additional data set, mixed with the first.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MixedDataSet {
    /// Feature vectors of the images, of the same width as those of the other data sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<TableRef>,
    /// Feature vectors of the regions of the images, as many and of the same width as those of the other data sets,
    /// instead of `features`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<TableRef>,
    /// The captions.
    pub captions: TableRef,
    /// Weight of the data set. Its share of an epoch is this weight over the sum of all weights.
    pub weight: f64,
}

/// Warm-up with SUM (`loss = { sum = {} }`) in the first epochs. MAX in particular may stay where all scores are equal
/// for the whole training; SUM leaves that point. SUM is in place of the model's own losses on scores too (`level_loss` of
/// `cvse`).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WarmUp {
    /// Number of warm-up epochs.
    #[schemars(range(min = 1))]
    pub epochs: u32,
    /// Margin α of SUM.
    #[serde(default = "margin")]
    pub margin: f64,
}

impl WarmUp {
    /// Loss of the warm-up epochs.
    #[must_use]
    pub fn loss(self) -> Loss {
        Loss::Sum(SumLoss { margin: self.margin })
    }
}

/// Measure on the validation split that selects the best epoch. Among equal epochs the first is selected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SelectionMetric {
    /// rsum: sum of R@1, R@5 and R@10 in both directions, as in VSE++ and most papers.
    #[default]
    Rsum,
    /// Sum of R@1, R@5 and R@10 of text-to-image retrieval, as in Order Embeddings.
    T2i,
    /// Sum of R@1 and R@5 in both directions, as in VSRN's published code.
    #[serde(rename = "r1_r5")]
    R1R5,
    /// Sum of NCS at 1, 5 and 10 in both directions, with φ from `caption_ngrams`, as in SAM's published code for COCO.
    Ncs,
    /// The same sum with higher weights for higher ranks, as in that code for Flickr30k.
    OrderedNcs,
}

impl SelectionMetric {
    /// Name in pipeline files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rsum => "rsum",
            Self::T2i => "t2i",
            Self::R1R5 => "r1_r5",
            Self::Ncs => "ncs",
            Self::OrderedNcs => "ordered_ncs",
        }
    }

    /// Returns true if the metric needs φ of the validation split.
    #[must_use]
    pub fn needs_relevance(self) -> bool {
        matches!(self, Self::Ncs | Self::OrderedNcs)
    }
}

/// Treatment of pairs of a batch that have the same image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SameImagePolicy {
    /// Pairs with the same image are negatives of each other, as in all published code.
    #[default]
    Keep,
    /// Pairs with the same image are not negatives of each other, neither in the loss nor in the model's own losses on
    /// scores (`level_loss` of `cvse`).
    Mask,
}

/// Fine-tuning of an image network together with the model. In training, every image is augmented anew in every
/// epoch, by torchvision's `RandomResizedCrop` and `RandomHorizontalFlip`; validation and memory bank use its centre
/// crop.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FinetuneSettings {
    /// The images.
    pub images: TableRef,
    /// Network. It has no dropout. Its features are the means of its last feature maps, or fc7 of VGG.
    pub network: Network,
    /// Statistics of its batch normalisation in training. `frozen` are the stored ones, which do not change. `batch` are those
    /// of the batch, which update the stored ones with momentum 0.1, as published code trains.
    #[serde(default = "frozen", skip_serializing_if = "is_frozen")]
    pub batch_norm: BatchNormStatistics,
    /// Initial weights of the network.
    pub weights: InitialWeights,
    /// Side of the square crop that is the input of the network, in pixels. By default that of the network's published
    /// weights: 224, and 299 for `inception_resnet_v2`.
    #[serde(default)]
    pub crop: Option<usize>,
    /// Shorter side to which an image is resized before its centre crop is taken, in pixels. By default that of the
    /// network's published weights: 256, and 333 for `inception_resnet_v2`.
    #[serde(default)]
    pub resize: Option<usize>,
}

fn frozen() -> BatchNormStatistics {
    BatchNormStatistics::Frozen
}

/// Returns true for the default of a setting that was added later: leaving it out keeps the keys of older results.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
fn is_frozen(statistics: &BatchNormStatistics) -> bool {
    *statistics == BatchNormStatistics::Frozen
}

/// Initial weights of a network.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InitialWeights {
    /// Safetensors file with torchvision's parameter names.
    File(SourceRef),
    /// Random weights from torchvision's initial distributions.
    Random,
}

/// Range of `crop` and `resize`. Below it, the last feature maps of a network are empty; above it, memory runs out.
const IMAGE_SIDES: std::ops::RangeInclusive<usize> = 32..=2048;

impl FinetuneSettings {
    /// Side of the square that the network reads, in pixels.
    #[must_use]
    pub fn crop(&self) -> usize {
        self.crop.unwrap_or_else(|| self.network.architecture().input.crop)
    }

    /// Shorter side of a resized image, in pixels.
    #[must_use]
    pub fn resize(&self) -> usize {
        self.resize.unwrap_or_else(|| self.network.architecture().input.resize)
    }

    /// Problems of the settings.
    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let (crop, resize) = (self.crop(), self.resize());
        for (setting, side) in [("finetune.crop", crop), ("finetune.resize", resize)] {
            if !IMAGE_SIDES.contains(&side) {
                let message = format!("{side} pixels, expected {} to {}", IMAGE_SIDES.start(), IMAGE_SIDES.end());
                problems.push(Problem::new(setting, message));
            }
        }
        if resize < crop {
            let message = format!("{resize} pixels, expected at least {crop}, the value of `crop`");
            problems.push(Problem::new("finetune.resize", message));
        }
        let architecture = self.network.architecture();
        let has_statistics =
            architecture.parameters().iter().any(|parameter| parameter.name.ends_with(".running_mean"));
        if self.batch_norm == BatchNormStatistics::Batch && !has_statistics {
            let message = format!("{} has no batch normalisation", self.network.name());
            problems.push(Problem::new("finetune.batch_norm", message).hint("leave it out"));
        }
        let own = architecture.input;
        if own.fixed && crop != own.crop {
            let message = format!("{crop} pixels, expected {}: {} takes no other", own.crop, self.network.name());
            problems.push(Problem::new("finetune.crop", message));
        }
        problems
    }
}

/// Initial word vectors, from a file.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WordVectorSettings {
    /// File of `GloVe` or `word2vec` vectors, text or binary, of the width `word_dim`. Words without a vector in it get
    /// random ones.
    pub file: SourceRef,
    /// True if the word vectors are trained too. Otherwise all of them keep their initial values.
    #[serde(default = "default_true")]
    pub train: bool,
}

/// Captions that the words of a vocabulary are counted in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VocabularyCaptions {
    /// Captions that are trained on. Words that only other captions have are unknown to the model, as those of the test
    /// split are.
    #[default]
    Training,
    /// All captions of the training splits, whatever `caption_fraction` is, and those of the validation split: as the
    /// published vocabularies of `*_precomp` folders.
    TrainAndVal,
}

impl VocabularyCaptions {
    /// True for the default: leaving it out keeps the keys of older results.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Memory bank: a sample of the training pairs, embedded anew at the start of each epoch. The scores of a batch with
/// the bank show which items are hubs, and give the weights of `hal`.
///
/// The defaults are those of the paper, as the default variant of `hal` is, but for `neighbours`, which it does not print. The
/// published code has `sampling = "batches"`, `mask = "batch_captions"`, `first_epoch = 1`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryBankSettings {
    /// Size of the bank as a share of the training pairs.
    #[serde(default = "fraction")]
    pub fraction: f64,
    /// Size of the bank as a number of training pairs, instead of `fraction`.
    #[serde(default)]
    pub samples: Option<usize>,
    /// Unit in which the samples are drawn.
    #[serde(default)]
    pub sampling: SamplingMode,
    /// Samples of the bank that a pair of the batch is not compared with.
    #[serde(default)]
    pub mask: MemoryBankMask,
    /// First epoch, from 0, that has a bank. Before it, `hal` uses the batch only. In the paper every epoch begins with a
    /// bank; the published code has none in epoch 0.
    #[serde(default)]
    pub first_epoch: u64,
    /// Epochs whose bank is kept in the table `memory_bank`. The weights of the model do not depend on it.
    #[serde(default)]
    pub keep: KeptBanks,
    /// Weights of the pairs of a batch, from their scores with the bank.
    #[serde(flatten)]
    pub weights: MemoryBankWeights,
}

/// Unit in which the samples of a memory bank are drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SamplingMode {
    /// Single samples: every bank has the same size.
    #[default]
    Samples,
    /// Whole batches of a shuffled epoch, each with the probability `fraction`, as in the published code: the size
    /// varies.
    Batches,
}

/// Epochs whose memory bank is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeptBanks {
    /// None: there is no table.
    None,
    /// The last one, which `query_bank` reads.
    #[default]
    Last,
    /// All.
    All,
}

impl MemoryBankSettings {
    /// Sampling of a bank from `samples` training pairs, in batches of `batch_size`.
    #[must_use]
    pub fn sampling(&self, samples: usize, batch_size: usize) -> MemoryBankSampling {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a number of pairs"
        )]
        let share = (self.fraction * samples as f64).round() as usize;
        match self.sampling {
            SamplingMode::Samples => MemoryBankSampling::Samples(self.samples.unwrap_or(share)),
            SamplingMode::Batches => MemoryBankSampling::Batches(batch_size, self.fraction),
        }
    }

    /// Problems of the settings.
    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if !(self.fraction > 0.0 && self.fraction <= 1.0) {
            let message = format!("got {}, expected a share above 0 and at most 1", self.fraction);
            problems.push(Problem::new("memory_bank.fraction", message));
        }
        if self.samples.is_some() && self.sampling == SamplingMode::Batches {
            let message = "whole batches are drawn by `fraction`, not by a number of samples";
            problems
                .push(Problem::new("memory_bank.samples", message).hint("set `fraction`, or `sampling = \"samples\"`"));
        }
        let least = |setting: &str, got: usize| {
            (got == 0).then(|| Problem::new(setting, "got 0, expected at least 1".to_owned()))
        };
        let MemoryBankWeights { neighbours, alpha, beta, epsilon_positive, epsilon_negative } = self.weights;
        problems.extend(least("memory_bank.neighbours", neighbours));
        problems.extend(self.samples.and_then(|rows| least("memory_bank.samples", rows)));
        if let Some(rows) = self.samples.filter(|&rows| rows < neighbours) {
            let message = format!("got {neighbours}, expected at most {rows}, the samples of the bank");
            problems.push(Problem::new("memory_bank.neighbours", message));
        }
        for (setting, got) in [("memory_bank.alpha", alpha), ("memory_bank.beta", beta)] {
            if !(got.is_finite() && got > 0.0) {
                problems.push(Problem::new(setting, format!("got {got}, expected a number above 0")));
            }
        }
        let margins = [("epsilon_positive", epsilon_positive), ("epsilon_negative", epsilon_negative)];
        for (setting, got) in margins.into_iter().filter(|(_, got)| !got.is_finite()) {
            problems
                .push(Problem::new(format!("memory_bank.{setting}"), format!("got {got}, expected a finite number")));
        }
        problems
    }
}

fn margin() -> f64 {
    0.2
}

fn default_true() -> bool {
    true
}

fn fraction() -> f64 {
    0.05
}
