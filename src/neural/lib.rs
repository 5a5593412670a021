//! Running of the stages that compute with tensors. `spec::stages` has their settings.

pub mod extract;
pub mod train;
pub mod import_model;
pub mod embed;
pub mod score_pairs;
pub mod compute_attention;
pub mod evaluate;
mod image_input;
mod run_stage;
mod tokenized_captions;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod published_chain_tests;

pub use run_stage::run_stage;
