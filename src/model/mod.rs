//! Everything that touches tensors.

pub mod device;
pub mod threads;
pub mod weights;
pub mod cnn;
