//! Resources of a running stage.

use super::{Cancel, Device};

/// Threads and device that a stage may use, and the flag that ends it.
#[derive(Debug, Clone)]
pub struct Resources {
    /// Threads that may be kept busy.
    pub threads: usize,
    /// Where tensors live.
    pub device: Device,
    /// Raised when the run is cancelled.
    pub cancel: Cancel,
}
