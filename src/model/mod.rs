//! Everything that touches tensors.

pub mod search;
