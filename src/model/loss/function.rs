//! Loss function: what every loss of the list in [`super`] offers.

use tch::Tensor;

use super::negatives::Negatives;
use super::{BankScores, BankWeights};

/// Names of settings, and what is wrong with each.
pub type Problems = Vec<(String, String)>;

/// Loss over the scores of a batch. The fields of the type that implements it are its settings.
pub trait LossFunction {
    /// Value on a batch, a tensor without dimensions. libtorch differentiates it in the scores.
    fn value(&self, batch: &Batch<'_>) -> Tensor;

    /// Settings that cannot work on such batches.
    fn problems(&self, batches: BatchSpec) -> Problems;

    /// Value on a batch of `pairs` pairs whose scores are all equal, as those of a model that tells nothing apart. `None` if
    /// it depends on the score.
    fn value_if_equal(&self, pairs: usize) -> Option<f64>;

    /// True if it is a sum of triplets, \[margin + negative − matching\]₊.
    fn is_triplet_loss(&self) -> bool {
        false
    }

    /// True if it weighs pairs by the scores with a memory bank.
    fn uses_memory_bank(&self) -> bool {
        false
    }
}

/// Batch of matching pairs as a loss sees it.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'b> {
    /// `[n, n]`, image by caption. Matching pairs are on the diagonal.
    pub scores: &'b Tensor,
    /// Pairs that are negatives of each other.
    pub negatives: &'b Negatives,
    /// Scores with a memory bank, and how they weigh the pairs.
    pub bank: Option<(&'b BankWeights, &'b BankScores)>,
}

/// Batches that a loss is meant for, as far as settings tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSpec {
    /// Pairs of a batch.
    pub pairs: usize,
    /// True if no score is above 0, as with order embeddings.
    pub never_positive: bool,
}

/// Declares [`Loss`](super::Loss) from lines `Variant(module::Settings)`. A pipeline file calls a loss by the name of its
/// module, and its documentation there is that of `Settings`.
macro_rules! losses {
    ($($variant:ident($module:ident::$settings:ident)),+ $(,)?) => {
        /// What a training minimises.
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

        // Not by a trait object: its table of functions would link the program that only checks settings with libtorch.
        impl LossFunction for Loss {
            fn value(&self, batch: &function::Batch<'_>) -> tch::Tensor {
                match self { $(Self::$variant(loss) => loss.value(batch)),+ }
            }
            fn problems(&self, batches: BatchSpec) -> function::Problems {
                match self { $(Self::$variant(loss) => loss.problems(batches)),+ }
            }
            fn value_if_equal(&self, pairs: usize) -> Option<f64> {
                match self { $(Self::$variant(loss) => loss.value_if_equal(pairs)),+ }
            }
            fn is_triplet_loss(&self) -> bool {
                match self { $(Self::$variant(loss) => loss.is_triplet_loss()),+ }
            }
            fn uses_memory_bank(&self) -> bool {
                match self { $(Self::$variant(loss) => loss.uses_memory_bank()),+ }
            }
        }
    };
}
pub(super) use losses;

/// Problem of a margin, if it has one.
pub(super) fn not_a_margin(name: &str, margin: f64) -> Option<(String, String)> {
    (!margin.is_finite() || margin < 0.0).then(|| (name.into(), format!("got {margin}, wanted 0 or more")))
}

/// Problem of a number that must be above 0, if it has one.
pub(super) fn not_positive(name: &str, value: f64) -> Option<(String, String)> {
    (!value.is_finite() || value <= 0.0).then(|| (name.into(), format!("got {value}, wanted a number above 0")))
}

/// Problem of `k` neighbours in a batch of `pairs` pairs, if there is one.
pub(super) fn not_neighbours(k: usize, pairs: usize) -> Option<(String, String)> {
    if k == 0 {
        return Some(("k".into(), "got 0, wanted at least 1".into()));
    }
    // A batch of one pair is refused for itself.
    (pairs > 1 && k >= pairs).then(|| {
        ("k".into(), format!("got {k}, wanted at most {}: the negatives of each in a batch of {pairs}", pairs - 1))
    })
}

/// Sum of the hinges of `negatives` negatives, at most all there are, of each image and caption of a batch whose scores are
/// all equal.
#[expect(clippy::cast_precision_loss, reason = "batches are far below 2^53 pairs")]
pub(super) fn equal_hinges(margin: f64, pairs: usize, negatives: usize) -> f64 {
    2.0 * pairs as f64 * negatives.min(pairs.saturating_sub(1)) as f64 * margin
}
