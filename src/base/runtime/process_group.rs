//! Process groups: processes that run one stage together.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Largest number of processes of a group.
pub const MAX_RANKS: usize = 1_024;

/// A process in the group of processes that run a stage together. [`pairloom_model::collective`] connects them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessGroup {
    /// Rank of this process, from 0. Only rank 0 writes results.
    pub rank: usize,
    /// Number of processes in the group.
    pub world_size: usize,
    /// Rank of this process among those on its machine. It chooses the GPU.
    pub local_rank: usize,
    /// Rendezvous of the group; `None` for a single process.
    pub rendezvous: Option<Rendezvous>,
}

impl ProcessGroup {
    /// A group of one process.
    #[must_use]
    pub fn single() -> Self {
        Self { rank: 0, world_size: 1, local_rank: 0, rendezvous: None }
    }
}

/// Address of the key-value store through which the processes of a stage find each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rendezvous {
    /// Name or address of the machine that serves the store.
    pub host: String,
    /// Port of the store.
    pub port: u16,
    /// Prefix of the keys of this group in the store.
    pub prefix: String,
    /// Time after which a silent process counts as lost.
    pub timeout: Duration,
    /// Secret of the processes, by which they know each other. It is never sent.
    #[serde(skip)]
    pub token: Option<String>,
    /// Name by which NCCL tells the machine of this process from others (`NCCL_HOSTID`), instead of its address.
    #[serde(skip)]
    pub nccl_host_id: Option<String>,
}
