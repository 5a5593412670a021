//! A streaming data-pipeline engine for image-text retrieval.
//!
//! To write a stage, read [`stages`], the file of one stage, and [`stage`] (the contract). Stages that compute with tensors
//! have their settings in [`spec`] and run in [`neural`]. `README.md` draws the flow of the stages; `ARCHITECTURE.md`
//! describes the whole code.

pub mod error;
pub mod suggest;
pub mod runtime;
pub mod tables;
pub use pairloom_kernels as kernels;
pub mod language;
pub mod io;
pub mod loader;
pub mod stage;
pub mod store;
pub mod plan;
pub mod search;
pub mod retrieval;
pub mod spec;
pub mod model;
#[cfg(any(test, fuzzing))]
pub mod stage_testing;
pub mod stages;
pub mod report;
pub mod registry;
pub mod neural;
pub mod pipeline;
pub mod engine;
pub mod sql;
pub mod cluster;
pub mod flight;
pub mod cli;
pub mod sql_program;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
