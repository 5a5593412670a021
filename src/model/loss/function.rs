//! Trait of the loss functions, and the macro that lists them.

use tch::Tensor;

use super::learned_scalar::LearnedScalar;
use super::negatives::Negatives;
use super::{MemoryBankScores, MemoryBankWeights};
use crate::model::setting_problems::SettingProblems;

/// Loss over the scores of a batch. The fields of an implementing type are its settings.
pub trait LossFunction {
    /// Value on a batch, a scalar tensor. libtorch differentiates it in the scores and in the learned scalars.
    fn value(&self, batch: &LossInput<'_>) -> Tensor;

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

/// Input of a loss: the scores of a batch of matching pairs.
#[derive(Debug, Clone, Copy)]
pub struct LossInput<'b> {
    /// `[n, n]`, image by caption. Matching pairs are on the diagonal.
    pub scores: &'b Tensor,
    /// Mask of the negatives.
    pub negatives: &'b Negatives,
    /// Scores with a memory bank, and the settings of the weights that follow from them.
    pub memory_bank: Option<(&'b MemoryBankWeights, &'b MemoryBankScores)>,
    /// Values of [`LossFunction::learned_scalars`], each `[1]`, in their order. Empty for a loss without them.
    pub scalars: &'b [Tensor],
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

/// Declares the enum [`Loss`](super::Loss) from lines `Variant(module::Settings)`. In pipeline files a loss has the
/// name of its module and the documentation of `Settings`.
macro_rules! losses {
    ($($variant:ident($module:ident::$settings:ident)),+ $(,)?) => {
        /// Loss function that a training minimises.
        #[derive(Debug, Clone, PartialEq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[expect(missing_docs, reason = "the settings of each are documented")]
        pub enum Loss {
            $($variant($module::$settings)),+
        }

        impl Loss {
            /// Name in pipeline files.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => stringify!($module)),+
                }
            }
        }

        // A trait object would not do: its vtable would link libtorch into the program that only checks settings.
        impl LossFunction for Loss {
            fn value(&self, batch: &function::LossInput<'_>) -> tch::Tensor {
                match self { $(Self::$variant(loss) => loss.value(batch)),+ }
            }
            fn problems(&self, batches: BatchSpec) -> crate::model::setting_problems::SettingProblems {
                match self { $(Self::$variant(loss) => loss.problems(batches)),+ }
            }
            fn implausible(&self) -> crate::model::setting_problems::SettingProblems {
                match self { $(Self::$variant(loss) => loss.implausible()),+ }
            }
            fn collapse_value(&self, pairs: usize) -> Option<f64> {
                match self { $(Self::$variant(loss) => loss.collapse_value(pairs)),+ }
            }
            fn is_triplet_loss(&self) -> bool {
                match self { $(Self::$variant(loss) => loss.is_triplet_loss()),+ }
            }
            fn uses_memory_bank(&self) -> bool {
                match self { $(Self::$variant(loss) => loss.uses_memory_bank()),+ }
            }
            fn learned_scalars(&self) -> Vec<crate::model::loss::LearnedScalar> {
                match self { $(Self::$variant(loss) => loss.learned_scalars()),+ }
            }
        }
    };
}
pub(super) use losses;

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
