//! The stages that compute without tensors, in the order of the data flow: settings, checks and running of each in one place.
//!
//! **Invariant:** a stage does not use another stage; they share tables.

pub mod ingest;
pub mod score_captions;
pub mod build_concepts;
pub mod import_regions;
pub mod import_arrays;
pub mod import_features;
pub mod ensemble;
pub mod test_significance;
pub mod correlate;
mod imported_vectors;
