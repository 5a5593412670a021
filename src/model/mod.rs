//! Everything that touches tensors.

pub mod device;
pub mod weights;
pub mod cnn;
