//! Values and limits of a query.

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
const NAMED_OPERATORS: usize = 3;

/// Values of the parameters of a query, and its limits.
#[derive(Debug, Clone, Default)]
pub struct QueryOptions {
    /// Values of the parameters, in order.
    pub parameters: Vec<ParameterValue>,
    /// Limits.
    pub limits: QueryLimits,
}

/// Limits of a query. By default there are none.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueryLimits {
    /// Memory of the operators that keep rows, in bytes. Sorts and groups that need more use temporary files.
    pub memory: Option<u64>,
    /// Time from the start to the last row that is read.
    pub time: Option<Duration>,
}

impl QueryLimits {
    /// Session state whose queries have this limit of memory.
    pub(super) fn applied_to(self, state: SessionState) -> Result<SessionState> {
        let Some(bytes) = self.memory else { return Ok(state) };
        let pool = TrackConsumersPool::new(
            FairSpillPool::new(bytes.saturating_as()),
            NAMED_OPERATORS.try_into().unwrap_or(std::num::NonZeroUsize::MIN),
        );
        let environment = RuntimeEnvBuilder::from_runtime_env(state.runtime_env())
            .with_memory_pool(Arc::new(pool))
            .with_max_temp_directory_size(MAX_TEMPORARY_BYTES)
            .build_arc()?;
        Ok(SessionStateBuilder::new_from_existing(state).with_runtime_env(environment).build())
    }
}
