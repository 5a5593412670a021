//! Everything that touches tensors.

pub mod device;
pub mod weights;
pub mod cnn;
pub mod vse;
pub mod captions;
pub mod gru;
pub mod loss;
pub mod adam;
pub mod named;
pub mod training;
pub mod trained;
#[cfg(test)]
mod vse_tests;
