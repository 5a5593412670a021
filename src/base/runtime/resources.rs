//! Resources of a running stage.

use std::sync::Arc;

use super::{CancelToken, Device, RemoteTasks};

/// Threads, device and other processes that a stage may use, and the token that cancels it.
#[derive(Debug, Clone)]
pub struct Resources {
    /// Number of threads that the stage may keep busy.
    pub threads: usize,
    /// Device of the tensors.
    pub device: Device,
    /// Cancelled when the run is.
    pub cancel: CancelToken,
    /// Processes of a cluster that compute parts of a stage.
    pub remote: Option<Arc<dyn RemoteTasks>>,
}
