//! Objectives on tensors: the scores of a batch in, a value and its gradient in the scores out.
//!
//! Each file has a plain twin in [`kernels::loss`](crate::kernels::loss), which has its formula and which it is tested
//! against. libtorch's automatic differentiation is used inside of [`Objective::evaluate`] and nowhere else.

mod negatives;
pub mod sum;
pub mod max;
pub mod knn_margin;
pub mod local_scaling;
pub mod bank_weights;
pub mod hal;
pub mod semantic_margin;
pub mod info_nce;
pub mod settings;
pub mod objective;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod tests;

pub use bank_weights::BankScores;
pub use objective::{Context, Evaluated, Objective};
pub use semantic_margin::{Sampler, SemanticMargin};
pub use settings::{Exponent, Loss, Over, Variant};
