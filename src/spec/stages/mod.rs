//! Settings of the stages that compute with tensors, and their checks. `neural` runs these stages.

pub mod extract;
pub mod train;
pub mod import_model;
pub mod embed;
pub mod score_pairs;
pub mod compute_attention;
pub mod evaluate;
pub mod image_vectors;
