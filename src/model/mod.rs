//! Everything that touches tensors.

pub mod vse;
pub mod captions;
pub mod gru;
pub mod loss;
pub mod adam;
pub mod named;
#[cfg(test)]
mod vse_tests;
