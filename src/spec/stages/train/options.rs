//! Nested settings of `train`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::family::BatchNormStatistics;
use crate::loss::MemoryBankMask;
use crate::loss::{Loss, MemoryBankWeights, sum::SumLoss};
use crate::networks::Network;
use pairloom_kernels::epoch::MemoryBankSampling;
use pairloom_stage::{Problem, SourceRef, TableRef};

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
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let (crop, resize) = (self.crop(), self.resize());
        for (setting, side) in [("finetune.crop", crop), ("finetune.resize", resize)] {
            if !IMAGE_SIDES.contains(&side) {
                let message = format!("{side} pixels, wanted {} to {}", IMAGE_SIDES.start(), IMAGE_SIDES.end());
                problems.push(Problem::new(setting, message));
            }
        }
        if resize < crop {
            let message = format!("{resize} pixels, wanted at least {crop}, the value of `crop`");
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
            let message = format!("{crop} pixels, wanted {}: {} takes no other", own.crop, self.network.name());
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
    pub(super) fn is_default(&self) -> bool {
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
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if !(self.fraction > 0.0 && self.fraction <= 1.0) {
            let message = format!("got {}, wanted a share above 0 and at most 1", self.fraction);
            problems.push(Problem::new("memory_bank.fraction", message));
        }
        if self.samples.is_some() && self.sampling == SamplingMode::Batches {
            let message = "whole batches are drawn by `fraction`, not by a number of samples";
            problems
                .push(Problem::new("memory_bank.samples", message).hint("set `fraction`, or `sampling = \"samples\"`"));
        }
        let least = |setting: &str, got: usize| {
            (got == 0).then(|| Problem::new(setting, "got 0, wanted at least 1".to_owned()))
        };
        let MemoryBankWeights { neighbours, alpha, beta, epsilon_positive, epsilon_negative } = self.weights;
        problems.extend(least("memory_bank.neighbours", neighbours));
        problems.extend(self.samples.and_then(|rows| least("memory_bank.samples", rows)));
        if let Some(rows) = self.samples.filter(|&rows| rows < neighbours) {
            let message = format!("got {neighbours}, wanted at most {rows}, the samples of the bank");
            problems.push(Problem::new("memory_bank.neighbours", message));
        }
        for (setting, got) in [("memory_bank.alpha", alpha), ("memory_bank.beta", beta)] {
            if !(got.is_finite() && got > 0.0) {
                problems.push(Problem::new(setting, format!("got {got}, wanted a number above 0")));
            }
        }
        let margins = [("epsilon_positive", epsilon_positive), ("epsilon_negative", epsilon_negative)];
        for (setting, got) in margins.into_iter().filter(|(_, got)| !got.is_finite()) {
            problems.push(Problem::new(format!("memory_bank.{setting}"), format!("got {got}, wanted a finite number")));
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
