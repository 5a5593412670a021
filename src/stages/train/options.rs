//! The settings of `train` that are groups of their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kernels::epoch::Draw;
use crate::model::bank::Mask;
use crate::model::cnn::Network;
use crate::model::loss::{BankWeights, Loss, sum::Sum};
use crate::stage::{Problem, Source, TableRef};

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

/// SUM in the first epochs, whatever the objective: MAX, above all, may never leave the point where all scores are equal, and
/// SUM leads away from it.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WarmUp {
    /// Epochs.
    pub epochs: u32,
    /// Margin α of SUM.
    #[serde(default = "margin")]
    pub margin: f64,
}

impl WarmUp {
    /// The objective of these epochs.
    pub(super) fn loss(self) -> Loss {
        Loss::Sum(Sum { margin: self.margin })
    }
}

/// Measure that the best epoch is chosen by, on the validation split. Of equal epochs the first one is it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Select {
    /// The sum of the six recalls at 1, 5 and 10, as VSE++ and most others.
    #[default]
    Rsum,
    /// The sum of the three recalls of captions that look for images, as Order embeddings.
    T2i,
    /// NCS at 1, 5 and 10 in both directions by φ of `caption_ngrams`, as the published code of SAM on COCO.
    Ncs,
    /// The same with earlier places counting for more, as that code on Flickr30k.
    OrderedNcs,
}

impl Select {
    /// True if it wants φ of the validation split.
    pub(super) fn wants_relevance(self) -> bool {
        matches!(self, Self::Ncs | Self::OrderedNcs)
    }
}

/// What becomes of other captions of an image that are in a batch with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SameImage {
    /// They count as negatives, as in all published code.
    #[default]
    Keep,
    /// They do not count.
    Mask,
}

/// Images with a network that is trained with the rest. Each picture is seen through a view of its own in every epoch:
/// torchvision's `RandomResizedCrop` and `RandomHorizontalFlip`; for validation and for a memory bank, its centre.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pictures {
    /// The images.
    pub images: TableRef,
    /// The network. Its batch normalisation uses its stored statistics and leaves them alone.
    pub network: Network,
    /// What its weights are at first.
    pub weights: Weights,
    /// Side of what the network sees, in pixels.
    #[serde(default = "side")]
    pub side: usize,
    /// Shorter side of a picture before its centre is cut out, in pixels.
    #[serde(default = "resize")]
    pub resize: usize,
}

/// Where the weights of a network come from.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Weights {
    /// A safetensors file with torchvision's parameter names.
    File(Source),
    /// Random weights, drawn as torchvision draws them.
    Random,
}

/// Smallest and largest side of what a network sees. Below, its last maps are empty; above, memory is.
const SIDES: std::ops::RangeInclusive<usize> = 32..=2048;

impl Pictures {
    /// What is wrong with them.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (setting, side) in [("pictures.side", self.side), ("pictures.resize", self.resize)] {
            if !SIDES.contains(&side) {
                let message = format!("{side} pixels, wanted {} to {}", SIDES.start(), SIDES.end());
                problems.push(Problem::new(setting, message));
            }
        }
        if self.resize < self.side {
            let message = format!("{} pixels, wanted at least {}, the side that is cut out", self.resize, self.side);
            problems.push(Problem::new("pictures.resize", message));
        }
        problems
    }
}

fn side() -> usize {
    224
}

fn resize() -> usize {
    256
}

/// Vectors that words begin with.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WordVectors {
    /// A file of `GloVe` or `word2vec`, as text or binary, as wide as `word`. Words that it does not have begin as they would
    /// without it.
    pub file: Source,
    /// Whether word vectors are trained with the rest, or stay what they were at the beginning, all of them.
    #[serde(default = "yes")]
    pub train: bool,
}

/// A sample of the training data, embedded anew at the start of each epoch, with which the batches are compared: what it says
/// of hubs becomes the weights of `hal`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bank {
    /// Share of the training samples.
    #[serde(default = "fraction")]
    pub fraction: f64,
    /// Samples, in place of a share.
    #[serde(default)]
    pub rows: Option<usize>,
    /// How they are drawn.
    #[serde(default)]
    pub sampling: Sampling,
    /// What a pair of the batch is not compared with.
    #[serde(default)]
    pub mask: Mask,
    /// The first epoch, from 0, that has a bank. Before it, `hal` does without.
    #[serde(default = "first_epoch")]
    pub first_epoch: u64,
    /// How the samples weigh the pairs of a batch.
    #[serde(flatten)]
    pub weights: BankWeights,
}

/// How the samples of a bank are drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// One by one: always as many.
    #[default]
    Rows,
    /// Whole batches of a shuffled epoch, each with the probability `fraction`, as the published code does: now more and now
    /// fewer.
    Batches,
}

impl Bank {
    /// How an epoch's bank is drawn from `samples`, by batches of `batch`.
    pub(super) fn draw(&self, samples: usize, batch: usize) -> Draw {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a number of samples"
        )]
        let share = (self.fraction * samples as f64).round() as usize;
        match self.sampling {
            Sampling::Rows => Draw::Rows(self.rows.unwrap_or(share)),
            Sampling::Batches => Draw::Batches(batch, self.fraction),
        }
    }

    /// What is wrong with it.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if !(self.fraction > 0.0 && self.fraction <= 1.0) {
            let message = format!("got {}, wanted a share above 0 and at most 1", self.fraction);
            problems.push(Problem::new("bank.fraction", message));
        }
        if self.rows.is_some() && self.sampling == Sampling::Batches {
            let message = "whole batches are drawn by `fraction`, not by a number of rows";
            problems.push(Problem::new("bank.rows", message).hint("give `fraction`, or draw by `rows`"));
        }
        let least = |setting: &str, got: usize| {
            (got == 0).then(|| Problem::new(setting, "got 0, wanted at least 1".to_owned()))
        };
        let BankWeights { neighbours, alpha, beta, epsilon_positive, epsilon_negative } = self.weights;
        problems.extend(least("bank.neighbours", neighbours));
        problems.extend(self.rows.and_then(|rows| least("bank.rows", rows)));
        if let Some(rows) = self.rows.filter(|&rows| rows < neighbours) {
            let message = format!("got {neighbours}, wanted at most {rows}, the rows of the bank");
            problems.push(Problem::new("bank.neighbours", message));
        }
        for (setting, got) in [("bank.alpha", alpha), ("bank.beta", beta)] {
            if !(got.is_finite() && got > 0.0) {
                problems.push(Problem::new(setting, format!("got {got}, wanted a number above 0")));
            }
        }
        let margins = [("epsilon_positive", epsilon_positive), ("epsilon_negative", epsilon_negative)];
        for (setting, got) in margins.into_iter().filter(|(_, got)| !got.is_finite()) {
            problems.push(Problem::new(format!("bank.{setting}"), format!("got {got}, wanted a finite number")));
        }
        problems
    }
}

fn margin() -> f64 {
    0.2
}

fn yes() -> bool {
    true
}

fn fraction() -> f64 {
    0.05
}

fn first_epoch() -> u64 {
    1
}
