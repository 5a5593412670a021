//! Loss functions on the scores of a batch: value, and gradient in the scores.
//!
//! Each loss is one file with its value; [`spec::loss`](pairloom_spec::loss) has its formula, its settings and their checks.
//! libtorch differentiates them, in [`EvaluateObjective::evaluate`] only. `tests/golden/losses.py` computes the same in
//! PyTorch, from the formulas.

pub mod objective;
pub mod sum;
pub mod max;
pub mod knn_margin;
pub mod local_scaling;
pub mod hal;
pub mod info_nce;
pub mod sigmoid;
pub mod semantic_margin;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use hal::MemoryBankScores;
pub use objective::{EvaluateObjective, LossFunction, LossInput, Negatives, ObjectiveContext, ObjectiveValue};
