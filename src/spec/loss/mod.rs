//! Settings of the loss functions: the contract of a loss, the list of the losses, and the objective of a training.
//!
//! Each loss is one file, with its formula, its paper, its settings as in pipeline files, and their checks. The macro `losses` lists
//! them. `model::loss` computes their values.
//!
//! Scores are finite. Among equal scores the lower index ranks first. The derivative of \[x\]₊ at 0 is 0. A
//! batch of one pair has no negatives.

pub mod sum;
pub mod max;
pub mod knn_margin;
pub mod local_scaling;
pub mod hal;
pub mod info_nce;
pub mod sigmoid;
pub mod memory_bank;
pub mod semantic_margin;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::setting_problems::{UsualRange, check_plausible};
use pairloom_stage::Problem;

pub use hal::HalLoss;
pub use info_nce::InfoNceLoss;
pub use knn_margin::KnnMarginLoss;
pub use local_scaling::{BaseLoss, DensityGradient, LocalScalingLoss};
pub use max::MaxLoss;
pub use memory_bank::{MemoryBankMask, MemoryBankWeights};
pub use semantic_margin::{NegativeSampler, SemanticMargin};
pub use sigmoid::SigmoidLoss;
pub use sum::SumLoss;

/// Declares the enum [`Loss`] from lines `Variant(module::Settings)`. In pipeline files a loss has the
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

            /// Settings of the loss.
            fn settings(&self) -> &dyn LossSettings {
                match self {
                    $(Self::$variant(loss) => loss),+
                }
            }
        }
    };
}

losses! {
    Sum(sum::SumLoss),
    Max(max::MaxLoss),
    KnnMargin(knn_margin::KnnMarginLoss),
    LocalScaling(local_scaling::LocalScalingLoss),
    Hal(hal::HalLoss),
    InfoNce(info_nce::InfoNceLoss),
    Sigmoid(sigmoid::SigmoidLoss),
}

impl Default for Loss {
    /// MAX, the loss of VSE++.
    fn default() -> Self {
        Self::Max(MaxLoss::default())
    }
}

impl LossSettings for Loss {
    fn problems(&self, batches: BatchSpec) -> Vec<Problem> {
        self.settings().problems(batches)
    }

    fn collapse_value(&self, pairs: usize) -> Option<f64> {
        self.settings().collapse_value(pairs)
    }

    fn is_triplet_loss(&self) -> bool {
        self.settings().is_triplet_loss()
    }

    fn uses_memory_bank(&self) -> bool {
        self.settings().uses_memory_bank()
    }

    fn learned_scalars(&self) -> Vec<LearnedScalar> {
        self.settings().learned_scalars()
    }
}

/// Settings of a loss, which are the fields of an implementing type, and what follows from them without scores.
pub trait LossSettings {
    /// Checks the settings for such batches. Of those that are possible, but implausible, there are warnings with the usual
    /// values.
    fn problems(&self, batches: BatchSpec) -> Vec<Problem>;

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

/// Checks that a margin is finite and at least 0, and warns of an implausible one.
fn check_margin(name: &str, margin: f64, usual: UsualRange) -> Option<Problem> {
    let is_wrong = !margin.is_finite() || margin < 0.0;
    let wrong = is_wrong.then(|| Problem::new(name, format!("got {margin}, expected 0 or more")));
    wrong.or_else(|| check_plausible(name, margin, usual))
}

/// Checks that a number is finite and above 0, and warns of an implausible one.
fn check_positive(name: &str, value: f64, usual: UsualRange) -> Option<Problem> {
    let is_wrong = !value.is_finite() || value <= 0.0;
    let wrong = is_wrong.then(|| Problem::new(name, format!("got {value}, expected a number above 0")));
    wrong.or_else(|| check_plausible(name, value, usual))
}

/// Checks a number `k` of neighbours in a batch of `pairs` pairs.
fn check_neighbours(k: usize, pairs: usize) -> Option<Problem> {
    if k == 0 {
        return Some(Problem::new("k", "got 0, expected at least 1"));
    }
    // A batch of one pair is refused elsewhere.
    (pairs > 1 && k >= pairs).then(|| {
        let most = pairs - 1;
        Problem::new("k", format!("got {k}, expected at most {most}: the negatives of each in a batch of {pairs}"))
    })
}

/// Sum of the triplet hinges of a batch whose scores are all equal, with `negatives` negatives for each image and
/// caption, or all if the batch has fewer.
#[expect(clippy::cast_precision_loss, reason = "batches are far below 2^53 pairs")]
fn collapsed_hinges(margin: f64, pairs: usize, negatives: usize) -> f64 {
    2.0 * pairs as f64 * negatives.min(pairs.saturating_sub(1)) as f64 * margin
}

/// Objective of a training: a loss, and a semantic adaptive margin (SAM) beside it or in its place.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Objective {
    /// The loss.
    pub loss: Loss,
    /// Triplets with semantic adaptive margins.
    pub semantic_margin: Option<SemanticMargin>,
}

impl Objective {
    /// Scalars that are trained together with the model.
    #[must_use]
    pub fn learned_scalars(&self) -> Vec<LearnedScalar> {
        self.loss.learned_scalars()
    }

    /// Value on a batch of `pairs` pairs whose scores are all equal, as those of a collapsed model. `None` if it
    /// depends on the score or on other inputs of the objective.
    #[must_use]
    pub fn collapse_value(&self, pairs: usize) -> Option<f64> {
        if self.semantic_margin.is_some() { None } else { self.loss.collapse_value(pairs) }
    }

    /// Checks the settings for such batches. Problems have names such as `loss.max.margin` and
    /// `semantic_margin.weight`.
    #[must_use]
    pub fn problems(&self, batches: BatchSpec) -> Vec<Problem> {
        let name = self.loss.name();
        let wrong = self.loss.problems(batches).into_iter();
        let mut problems: Vec<Problem> = wrong.map(|problem| problem.under(&format!("loss.{name}"))).collect();
        if let Some(semantic_margin) = &self.semantic_margin {
            problems.extend(semantic_margin.problems().into_iter().map(|problem| problem.under("semantic_margin")));
            if semantic_margin.keep_triplet && !self.loss.is_triplet_loss() {
                let message = format!(
                    "got `keep_triplet = true` with the loss `{name}`, expected a triplet loss such as `max`, or `keep_triplet = false`"
                );
                problems.push(Problem::new("semantic_margin", message));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objective(loss: Loss, semantic_margin: Option<SemanticMargin>) -> Objective {
        Objective { loss, semantic_margin }
    }

    #[test]
    fn settings_have_the_defaults_of_the_papers() {
        let read = |text: &str| serde_json::from_str::<Loss>(text).expect("a loss");
        assert_eq!(read(r#"{"sum":{}}"#), Loss::Sum(SumLoss { margin: 0.2 }));
        assert_eq!(read(r#"{"knn_margin":{}}"#), Loss::KnnMargin(KnnMarginLoss::default()));
        assert_eq!(read(r#"{"local_scaling":{}}"#), Loss::LocalScaling(LocalScalingLoss::default()));
        assert_eq!(read(r#"{"hal":{}}"#), Loss::Hal(HalLoss::default()));
        assert_eq!(read(r#"{"info_nce":{}}"#), Loss::InfoNce(InfoNceLoss { temperature: 0.07, learned: false }));
        assert!(serde_json::from_str::<Loss>(r#"{"max":{"marign":0.2}}"#).is_err());
        assert_eq!(serde_json::from_str::<SemanticMargin>("{}").expect("margins"), SemanticMargin::default());
    }

    #[test]
    fn invalid_settings_are_reported() {
        let problems_of = |objective: &Objective, pairs| -> Vec<String> {
            let batches = BatchSpec { pairs, never_positive: false, sums: false };
            let found = objective.problems(batches).into_iter();
            found.map(|problem| format!("{}: {}", problem.setting, problem.message)).collect()
        };
        assert_eq!(
            problems_of(&objective(Loss::KnnMargin(KnnMarginLoss { margin: -1.0, k: 8 }), None), 8),
            [
                "loss.knn_margin.margin: got -1, expected 0 or more",
                "loss.knn_margin.k: got 8, expected at most 7: the negatives of each in a batch of 8"
            ]
        );
        let margins = SemanticMargin { temperature: 0.0, keep_triplet: false, ..SemanticMargin::default() };
        let mut beside = objective(Loss::Hal(HalLoss::default()), Some(margins));
        assert_eq!(problems_of(&beside, 8), ["semantic_margin.temperature: got 0, expected a number above 0"]);
        beside.semantic_margin = Some(SemanticMargin::default());
        assert!(
            problems_of(&beside, 8)[0].starts_with("semantic_margin: got `keep_triplet = true` with the loss `hal`")
        );
    }
}
