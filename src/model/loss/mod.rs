//! Loss functions on the scores of a batch: value, and gradient in the scores.
//!
//! Each loss is one file with its formula and paper, its settings as in pipeline files, its value, and the checks of
//! its settings. [`losses!`](function) lists them. libtorch differentiates them, in [`Objective::evaluate`] only.
//! `tests/golden/losses.py` computes the same in PyTorch, from the formulas.
//!
//! Scores are finite. Among equal scores the lower index ranks first. The derivative of \[x\]₊ at 0 is 0. A
//! batch of one pair has no negatives.

pub mod function;
pub mod learned_scalar;
pub mod objective;
mod negatives;
pub mod variant;
pub mod sum;
pub mod max;
pub mod knn_margin;
pub mod local_scaling;
pub mod hal;
pub mod info_nce;
pub mod sigmoid;
pub mod memory_bank_weights;
pub mod semantic_margin;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use function::{BatchSpec, LossFunction, LossInput};
pub use learned_scalar::LearnedScalar;
pub use memory_bank_weights::{MemoryBankScores, MemoryBankWeights};
pub use negatives::Negatives;
pub use objective::{Objective, ObjectiveContext, ObjectiveValue};
pub use semantic_margin::{NegativeSampler, SemanticMargin};
pub use variant::FormulaVariant;

function::losses! {
    Sum(sum::SumLoss),
    Max(max::MaxLoss),
    KnnMargin(knn_margin::KnnMarginLoss),
    LocalScaling(local_scaling::LocalScalingLoss),
    Hal(hal::HalLoss),
    InfoNce(info_nce::InfoNceLoss),
    Sigmoid(sigmoid::SigmoidLoss),
}
