//! Pure arithmetic: slices in, numbers out. No files, no threads, no tensors, no clock.
//!
//! The rest of Pairloom knows this package as `pairloom::kernels`.
//!
//! Conventions, stated once: matrices are row-major; data is f32 and sums are f64; of equal scores the lower index comes
//! first; randomness is [`sample`] with a seed.

pub mod identity;
pub mod cpu;
pub mod sample;
pub mod normal;
pub mod epoch;
pub mod resize;
pub mod augment;
pub mod normalize;
pub mod text;
pub mod dot;
pub mod order;
pub mod similarity;
pub mod top_k;
pub mod product;
pub mod scores;
pub mod gates;
pub mod adam;
pub mod measure;
pub mod hubness;
