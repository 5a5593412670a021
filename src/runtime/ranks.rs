//! Ranks: processes that run one stage together.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The processes that run a stage together, and which of them this one is. [`crate::model::collective`] connects them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranks {
    /// This process. Rank 0 is the one whose results count.
    pub rank: usize,
    /// All processes.
    pub of: usize,
    /// Its number among those on its machine, which chooses its GPU.
    pub local: usize,
    /// Where they meet; nowhere if this one is alone.
    pub meeting: Option<Meeting>,
}

impl Ranks {
    /// One process that runs a stage by itself.
    #[must_use]
    pub fn alone() -> Self {
        Self { rank: 0, of: 1, local: 0, meeting: None }
    }
}

/// Where the processes of a stage meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meeting {
    /// Name or address of the machine with the store of keys.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Name that tells this meeting from others at the same store.
    pub name: String,
    /// How long one waits for another before it counts as gone.
    pub patience: Duration,
}
