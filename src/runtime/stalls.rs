//! Stalls: the time that a training waited for data.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Where the time of a training went, in seconds; the sum is the time between the first call for a batch and the last.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Stalls {
    /// The trainer waited for a batch whose shards were being fetched, made or mapped.
    pub storage: f64,
    /// The trainer waited for a batch that was being put together: rows copied, pictures decoded.
    pub decode: f64,
    /// The trainer worked, and batches waited for it.
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
    /// Seconds in all.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.storage + self.decode + self.trainer
    }
}
