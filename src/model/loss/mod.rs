//! Objectives on tensors: the scores of a batch in, a value and its gradient in the scores out.
//!
//! A loss is one file: its formula and paper, its settings as pipeline files have them, its value, what can be wrong with its
//! settings. [`losses!`](function) lists them. libtorch differentiates them, inside of [`Objective::evaluate`] and nowhere
//! else. `tests/golden/losses.py` computes the same in PyTorch, from the formulas.
//!
//! Scores are finite. Where scores are equal the one of the lower index counts as the nearer one; the derivative of \[x\]₊ at
//! 0 is 0; a batch of one pair has no negatives.

pub mod function;
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
pub mod bank_weights;
pub mod semantic_margin;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use bank_weights::{BankScores, BankWeights};
pub use function::{BatchSpec, LossFunction};
pub use objective::{Context, Evaluated, Objective};
pub use semantic_margin::{Sampler, SemanticMargin};
pub use variant::Variant;

function::losses! {
    Sum(sum::Sum),
    Max(max::Max),
    KnnMargin(knn_margin::KnnMargin),
    LocalScaling(local_scaling::LocalScaling),
    Hal(hal::Hal),
    InfoNce(info_nce::InfoNce),
    Sigmoid(sigmoid::Sigmoid),
}
