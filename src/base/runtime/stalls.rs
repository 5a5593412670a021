//! Data stalls: time that a training waited for its data loader.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Wall time of a training in seconds, split into waiting for data and work. The parts add up to the time between the
/// first and the last request for a batch.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Stalls {
    /// Time that the trainer waited for a batch whose shards were being fetched, converted or memory-mapped.
    pub storage: f64,
    /// Time that the trainer waited for a batch that was being assembled: rows copied, images decoded.
    pub decode: f64,
    /// Time that the trainer worked.
    pub trainer: f64,
}

impl AddAssign for Stalls {
    fn add_assign(&mut self, other: Self) {
        self.storage += other.storage;
        self.decode += other.decode;
        self.trainer += other.trainer;
    }
}

impl Stalls {
    /// Total time in seconds.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.storage + self.decode + self.trainer
    }
}
