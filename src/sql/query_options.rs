//! Values of the parameters of a query, and its limits of memory and time.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use az::SaturatingAs;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionState;

use crate::sql::parameters::ParameterValue;

/// Largest total size of the temporary files of a query whose memory is limited.
const MAX_TEMPORARY_BYTES: u64 = 16 << 30;
/// Operators that an error about memory names.
const NAMED_OPERATORS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// Values of the parameters of a query, and its limit of memory. By default there are none.
#[derive(Debug, Clone, Default)]
pub struct QueryOptions {
    /// Values of the parameters, in order.
    pub parameters: Vec<ParameterValue>,
    /// Memory of the operators that keep rows (sorts, groups, joins), in bytes. Sorts and groups that need more use
    /// temporary files, of 16 GiB at most. Values that a function computes are not counted, but have a limit of their own.
    pub memory: Option<u64>,
}

/// Limits of each query of a session that a thread waits for. By default there are none.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueryLimits {
    /// Memory, as in [`QueryOptions`].
    pub memory: Option<u64>,
    /// Time from the start of a query until its last row is taken.
    pub time: Option<Duration>,
}

impl QueryOptions {
    /// Session state whose queries have this limit of memory.
    pub(super) fn applied_to(&self, state: SessionState) -> Result<SessionState> {
        match self.memory {
            Some(bytes) => with_memory(state, bytes),
            None => Ok(state),
        }
    }
}

/// Session state whose queries have at most so many bytes of memory, all together.
pub(super) fn with_memory(state: SessionState, bytes: u64) -> Result<SessionState> {
    let pool = TrackConsumersPool::new(FairSpillPool::new(bytes.saturating_as()), NAMED_OPERATORS);
    let environment = RuntimeEnvBuilder::from_runtime_env(state.runtime_env())
        .with_memory_pool(Arc::new(pool))
        .with_max_temp_directory_size(MAX_TEMPORARY_BYTES)
        .build_arc()?;
    Ok(SessionStateBuilder::new_from_existing(state).with_runtime_env(environment).build())
}
