//! Values of the parameters of a query, and its limits of memory and time.
//!
//! A sort that has used up its memory sorts its rows batch by batch, merges the batches, and writes the result to a
//! temporary file. The merge needs memory as well: for two keys of 8 bytes, twice what the sort has reserved for its rows.
//! In one pool with the rows it finds none left, and the sort fails if it has more than the few dozen batches for which
//! DataFusion sets memory aside. So rows and merges of sorts have memory of their own here.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use az::SaturatingAs;
use datafusion::common::resources_err;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionState;

use crate::parameters::ParameterValue;

/// Largest total size of the temporary files of a query whose memory is limited.
pub(super) const MAX_TEMPORARY_BYTES: u64 = 16 << 30;

/// Values of the parameters of a query, and its limit of memory. By default there are none.
#[derive(Debug, Clone, Default)]
pub struct QueryOptions {
    /// Values of the parameters, in order.
    pub parameters: Vec<ParameterValue>,
    /// Memory of the operators that keep rows, in bytes: so much for groups and joins, and as much for sorts. Sorts and
    /// groups that need more use temporary files, of 16 GiB at most. Values that a function computes are not counted.
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

/// Start of the names of DataFusion's consumers that keep the rows of a sort.
const SORT_ROWS: &str = "ExternalSorter[";
/// Start of the names of its consumers that merge sorted batches.
const SORT_MERGES: &str = "ExternalSorterMerge[";

/// Memory of the operators of queries: a limit for all but sorts, and as much again for these.
#[derive(Debug)]
pub(super) struct QueryMemory {
    operators: FairSpillPool,
    /// A fifth of the memory of sorts: merges need up to four times what the rows have, for keys of one byte.
    sort_rows: FairSpillPool,
    /// The rest of it.
    sort_merges: FairSpillPool,
    /// Largest size of a batch of a sort that keeps no other rows.
    largest_batch: usize,
}

impl QueryMemory {
    /// Memory of at most `bytes`, and for sorts as much again.
    pub fn new(bytes: usize) -> Self {
        Self {
            operators: FairSpillPool::new(bytes),
            sort_rows: FairSpillPool::new(bytes / 5),
            sort_merges: FairSpillPool::new(bytes - bytes / 5),
            largest_batch: bytes,
        }
    }

    /// Memory from which a consumer takes its own.
    fn of(&self, consumer: &MemoryConsumer) -> &FairSpillPool {
        match consumer.name() {
            name if name.starts_with(SORT_ROWS) => &self.sort_rows,
            name if name.starts_with(SORT_MERGES) => &self.sort_merges,
            _ => &self.operators,
        }
    }
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.operators, f)
    }
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &'static str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.of(consumer).register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.of(consumer).unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.of(reservation.consumer()).grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.of(reservation.consumer()).shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let (pool, consumer) = (self.of(reservation.consumer()), reservation.consumer().name());
        if pool.try_grow(reservation, additional).is_ok() {
            return Ok(());
        }
        // Without rows that it could write to a file, a sort cannot make room, and its batch is in memory already.
        let is_first = reservation.size() == 0 && consumer.starts_with(SORT_ROWS);
        let reserved = pool.reserved();
        if !is_first || reserved.saturating_add(additional) > self.largest_batch {
            return resources_err!(
                "the memory of the query is used up: {consumer} expected {additional} bytes beside the {reserved} in use"
            );
        }
        pool.grow(reservation, additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        [&self.operators, &self.sort_rows, &self.sort_merges].map(MemoryPool::reserved).iter().sum()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.operators.memory_limit()
    }
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
        for (sql, expected, memories) in [
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
                assert_eq!(count(sql, memory, 1 << 30).unwrap(), expected, "{sql}");
            }
            let error = count(sql, 20 << 20, 100_000).unwrap_err();
            assert_eq!(error.category(), ErrorCategory::Stage, "{sql}: {error}");
            assert!(error.to_string().contains("GiB of temporary files"), "{sql}: {error}");
        }
    }

    #[test]
    fn rows_and_merges_of_sorts_have_memory_of_their_own() {
        let memory: Arc<dyn MemoryPool> = Arc::new(QueryMemory::new(1_000));
        let register = |name: &str| MemoryConsumer::new(name).with_can_spill(true).register(&memory);
        let (group, rows, merge) =
            (register("Group"), register("ExternalSorter[0]"), register("ExternalSorterMerge[0]"));
        group.try_grow(1_000).unwrap();
        assert!(group.try_grow(1).is_err());
        rows.try_grow(200).unwrap();
        assert!(rows.try_grow(1).is_err());
        merge.try_grow(800).unwrap();
        assert!(merge.try_grow(1).is_err());
        assert_eq!(memory.reserved(), 2_000);
        rows.free();
        // The first batch of a sort may be larger than its share.
        rows.try_grow(1_000).unwrap();
        assert!(rows.try_grow(1).is_err());
        // Another sort has half of the share of rows.
        let second = register("ExternalSorter[1]");
        assert!(second.try_grow(101).is_err());
        second.try_grow(100).unwrap();
        drop((group, rows, merge, second));
        assert_eq!(memory.reserved(), 0);
    }
}
