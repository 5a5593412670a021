//! Everything that touches tensors.

pub mod device;
pub mod memory;
pub mod heap;
pub mod threads;
pub mod collective;
pub mod named;
mod tensor_file;
mod slices;
pub mod weights;
pub mod cnn;
pub mod form;
pub mod encoder;
pub mod vse;
pub mod similarity;
pub mod loss;
pub mod bank;
pub mod adam;
pub mod training;
pub mod step;
pub mod trained;
pub mod published;
pub mod products;
pub mod search;
#[cfg(test)]
mod vse_tests;
