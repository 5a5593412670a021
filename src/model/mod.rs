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
pub mod encoder;
pub mod similarity;
pub mod family;
pub mod loss;
pub mod bank;
pub mod adam;
pub mod training;
pub mod step;
pub mod trained;
pub mod rows_encoder;
pub mod products;
pub mod search;
pub mod scores;
