//! Running of the stages that compute with tensors: one file or folder a stage. `pairloom_spec::stages` has their settings.
//!
//! [`run_stage`] runs a stage of any kind. Open it first.
//!
//! **Invariant:** a stage does not use another stage; they share tables.
//!
//! **Invariant:** a stage calls `wait_for_exclusive` after all its inputs are complete, never before. Otherwise it could wait for
//! a stage that waits for it.

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
