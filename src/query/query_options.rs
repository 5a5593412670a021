//! Values of the parameters of a query, and its limits of memory and time.

use std::sync::Arc;
use std::time::Duration;

use az::SaturatingAs;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionState;

use crate::parameters::ParameterValue;
use crate::query_memory::QueryMemory;

/// Largest total size of the temporary files of a query whose memory is limited.
pub(super) const MAX_TEMPORARY_BYTES: u64 = 16 << 30;

/// Values of the parameters of a query, and its limit of memory. By default there are none.
#[derive(Debug, Clone, Default)]
pub struct QueryOptions {
    /// Values of the parameters, in order.
    pub parameters: Vec<ParameterValue>,
    /// Memory of the operators that keep rows, in bytes: so much for groups and joins, and as much for sorts. Sorts and
    /// groups that need more use temporary files, of 16 GiB at most. Values that a function computes are not counted, but
    /// have a limit of their own.
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

/// Session state whose queries together have so many bytes of memory for groups and joins, and as many for sorts.
pub(super) fn with_memory(state: SessionState, bytes: u64) -> Result<SessionState> {
    with_memory_and_files(state, bytes, MAX_TEMPORARY_BYTES)
}

/// The same with at most `temporary` bytes of temporary files.
fn with_memory_and_files(state: SessionState, bytes: u64, temporary: u64) -> Result<SessionState> {
    let pool = QueryMemory::new(bytes.saturating_as());
    let environment = RuntimeEnvBuilder::from_runtime_env(state.runtime_env())
        .with_memory_pool(Arc::new(pool))
        .with_max_temp_directory_size(temporary)
        .build_arc()?;
    // The memory of merges is their own, so none is set aside before there is something to merge.
    let config = state.config().clone().with_sort_spill_reservation_bytes(0);
    Ok(SessionStateBuilder::new_from_existing(state).with_config(config).with_runtime_env(environment).build())
}

#[cfg(test)]
mod tests {
    use arrow::array::RecordBatch;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;
    use crate::errors::sql_error;
    use pairloom_base::error::ErrorCategory;

    #[test]
    fn a_sort_and_a_distinct_use_temporary_files_up_to_their_limit() {
        let count = |sql: &str, memory: u64, temporary: u64| -> pairloom_base::error::Result<usize> {
            let config = SessionConfig::new().with_target_partitions(1);
            let state = SessionContext::new_with_config(config).state();
            let context = SessionContext::new_with_state(with_memory_and_files(state, memory, temporary).unwrap());
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let batches = runtime.block_on(async { context.sql(sql).await?.collect().await });
            let batches = batches.map_err(|error| sql_error(&error))?;
            Ok(batches.iter().map(RecordBatch::num_rows).sum::<usize>())
        };
        for (sql, wanted, memories) in [
            // 8 MB of numbers, and more for their order.
            ("SELECT value FROM range(0, 1000000) ORDER BY value % 1000, value", 1_000_000, vec![20 << 20]),
            ("SELECT value, value % 7 b FROM range(0, 1000000) ORDER BY b, value DESC", 1_000_000, vec![20 << 20]),
            ("SELECT DISTINCT value % 900000 FROM range(0, 1000000)", 900_000, vec![20 << 20]),
            // The more memory there is, the more batches of short rows are merged before they are written.
            (
                "SELECT (value % 7)::tinyint a, (value % 5)::tinyint b FROM range(0, 3000000) ORDER BY a, b",
                3_000_000,
                vec![20 << 20, 60 << 20],
            ),
        ] {
            for memory in memories {
                assert_eq!(count(sql, memory, 1 << 30).unwrap(), wanted, "{sql}");
            }
            let error = count(sql, 20 << 20, 100_000).unwrap_err();
            assert_eq!(error.category(), ErrorCategory::Stage, "{sql}: {error}");
            assert!(error.to_string().contains("GiB of temporary files"), "{sql}: {error}");
        }
    }
}
