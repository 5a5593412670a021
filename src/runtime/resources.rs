//! Resources of a running stage.

use super::{CancelToken, Device};

/// Threads and device that a stage may use, and the token that cancels it.
#[derive(Debug, Clone)]
pub struct Resources {
    /// Number of threads that the stage may keep busy.
    pub threads: usize,
    /// Device of the tensors.
    pub device: Device,
    /// Cancelled when the run is.
    pub cancel: CancelToken,
}
