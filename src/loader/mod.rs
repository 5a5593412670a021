//! From shards to batches that are ready for a training step.

mod augmented;
#[cfg(test)]
mod parity;

pub use augmented::AugmentedPictures;
