//! Objectives of a training as plain arithmetic: the references that the tensor versions are tested against.
//!
//! All take a [`Batch`], the scores of all its images with all its captions, and give the value and its gradient in the
//! scores, written out by hand, as a [`Loss`]. Scores are finite. Where scores are equal the one of the lower index counts
//! as the nearer one; the derivative of \[x\]₊ at 0 is 0; a batch of one pair has no negatives.

pub mod batch;
pub mod sum;
pub mod max;
pub mod knn_margin;
pub mod local_scaling;
pub mod bank_weights;
pub mod hal;
pub mod semantic_margin;
pub mod info_nce;
#[cfg(test)]
mod tests;

pub use bank_weights::{Bank, BankWeights, Weights, bank_weights};
pub use batch::{Batch, Loss, Variant};
pub use hal::hal;
pub use info_nce::info_nce;
pub use knn_margin::knn_margin;
pub use local_scaling::{Exponent, Over, local_scaling};
pub use max::max;
pub use semantic_margin::{Sampler, SemanticMargin, semantic_margin};
pub use sum::sum;
