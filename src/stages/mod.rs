//! Stages of a pipeline, in the order of the data flow, and their registry.

pub mod ingest;
pub mod score_captions;
pub mod build_concepts;
pub mod extract;
pub mod import_regions;
pub mod import_arrays;
pub mod import_features;
pub mod train;
pub mod import_model;
pub mod embed;
pub mod score_pairs;
pub mod ensemble;
pub mod compute_attention;
pub mod evaluate;
pub mod test_significance;
pub mod correlate;
pub mod report;
mod image_vectors;
mod tokenized_captions;
mod registry;
mod agreement;
mod writers;
// Tests of other modules use it too.
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod published_chain_tests;

pub use registry::AnyStage;
