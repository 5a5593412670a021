//! Contract of the settings of losses, and the checks that they share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::setting_problems::SettingProblems;

/// Settings of a loss, which are the fields of an implementing type, and what follows from them without scores.
pub trait LossSettings {
    /// Checks the settings for such batches.
    fn problems(&self, batches: BatchSpec) -> SettingProblems;

    /// Settings that are possible, but implausible, with the usual values.
    fn implausible(&self) -> SettingProblems;

    /// Value on a batch of `pairs` pairs whose scores are all equal, as those of a collapsed model. `None` if it
    /// depends on the score.
    fn collapse_value(&self, pairs: usize) -> Option<f64>;

    /// True if the loss is a sum of triplets, \[margin + negative − matching\]₊.
    fn is_triplet_loss(&self) -> bool {
        false
    }

    /// True if the loss weighs pairs by their scores with a memory bank.
    fn uses_memory_bank(&self) -> bool {
        false
    }

    /// Scalars that are trained together with the model.
    fn learned_scalars(&self) -> Vec<LearnedScalar> {
        Vec::new()
    }
}

/// Description of the batches that a loss is used for, for checks of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSpec {
    /// Number of pairs in a batch.
    pub pairs: usize,
    /// True if no score is above 0, as in order embeddings.
    pub never_positive: bool,
    /// True if scores are sums over the words of a caption or the regions of an image, which have no bound.
    pub sums: bool,
}

/// Scalar of a loss that is trained together with the model, such as a temperature.
///
/// It is a parameter of the optimiser: its gradient counts in the global norm, and it has moments. Weight decay leaves it
/// alone, since it would draw a temperature towards 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnedScalar {
    /// Name, unique within the loss.
    pub name: String,
    /// Value before the first step.
    pub initial: f64,
    /// Largest value. A step that goes beyond ends there.
    pub largest: Option<f64>,
}

impl LearnedScalar {
    /// Creates a scalar without a largest value.
    #[must_use]
    pub fn new(name: &str, initial: f64) -> Self {
        Self { name: name.to_owned(), initial, largest: None }
    }
}

/// Variant of a formula: the paper's, or that of its published code, where they differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FormulaVariant {
    /// Formula of the paper.
    #[default]
    Paper,
    /// Formula of the published code, to reproduce its results.
    Official,
}

/// Checks that a margin is finite and at least 0.
pub(super) fn check_margin(name: &str, margin: f64) -> Option<(String, String)> {
    (!margin.is_finite() || margin < 0.0).then(|| (name.into(), format!("got {margin}, wanted 0 or more")))
}

/// Checks that a number is finite and above 0.
pub(super) fn check_positive(name: &str, value: f64) -> Option<(String, String)> {
    (!value.is_finite() || value <= 0.0).then(|| (name.into(), format!("got {value}, wanted a number above 0")))
}

/// Checks a number `k` of neighbours in a batch of `pairs` pairs.
pub(super) fn check_neighbours(k: usize, pairs: usize) -> Option<(String, String)> {
    if k == 0 {
        return Some(("k".into(), "got 0, wanted at least 1".into()));
    }
    // A batch of one pair is refused elsewhere.
    (pairs > 1 && k >= pairs).then(|| {
        ("k".into(), format!("got {k}, wanted at most {}: the negatives of each in a batch of {pairs}", pairs - 1))
    })
}

/// Sum of the triplet hinges of a batch whose scores are all equal, with `negatives` negatives for each image and
/// caption, or all if the batch has fewer.
#[expect(clippy::cast_precision_loss, reason = "batches are far below 2^53 pairs")]
pub(super) fn collapsed_hinges(margin: f64, pairs: usize, negatives: usize) -> f64 {
    2.0 * pairs as f64 * negatives.min(pairs.saturating_sub(1)) as f64 * margin
}
