//! Numeric kernels on slices: slices in, numbers out. No files, no threads, no tensors, no clock.
//!
//! Conventions: matrices are row-major; data is f32 and sums are f64; of equal scores the lower index comes first;
//! random numbers come from [`random`] with a seed.

pub mod identity;
pub mod cpu;
#[cfg(target_arch = "x86_64")]
mod vector_instructions;
pub mod random;
pub mod normal;
pub mod epoch;
pub mod resize;
pub mod augment;
pub mod normalize;
pub mod text;
pub mod distance;
pub mod order_similarity;
pub mod top_k;
pub mod product;
pub mod packed_layer;
pub mod score_panels;
pub mod exp;
pub mod cross_attention;
pub mod gru_cell;
pub mod adam;
pub mod measure;
pub mod hubness;
