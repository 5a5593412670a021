//! Everything that touches tensors.

pub mod device;
pub mod memory;
pub mod heap;
pub mod threads;
pub mod named;
mod tensor_file;
pub mod weights;
pub mod cnn;
pub mod form;
pub mod encoder;
pub mod vse;
pub mod loss;
pub mod adam;
pub mod training;
pub mod trained;
pub mod search;
#[cfg(test)]
mod vse_tests;
