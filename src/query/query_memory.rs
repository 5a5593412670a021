//! Memory of the operators of queries.
//!
//! A sort that has used up its memory sorts its rows batch by batch, merges the batches, and writes the result to a
//! temporary file. The merge needs memory as well: for two keys of 8 bytes, twice what the sort has reserved for its rows.
//! In one pool with the rows it finds none left, and the sort fails if it has more than the few dozen batches for which
//! DataFusion sets memory aside. So rows and merges of sorts have memory of their own here.

use std::fmt;
use std::num::NonZeroUsize;

use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, TrackConsumersPool,
};

/// Operators that an error about memory names.
const NAMED_OPERATORS: NonZeroUsize = NonZeroUsize::new(3).unwrap();
/// Start of the names of DataFusion's consumers that keep the rows of a sort.
const SORT_ROWS: &str = "ExternalSorter[";
/// Start of the names of its consumers that merge sorted batches.
const SORT_MERGES: &str = "ExternalSorterMerge[";

/// Memory of the operators of queries: a limit for all but sorts, and as much again for these.
#[derive(Debug)]
pub(super) struct QueryMemory {
    operators: TrackConsumersPool<FairSpillPool>,
    /// A fifth of the memory of sorts: merges need up to four times what the rows have, for keys of one byte.
    sort_rows: TrackConsumersPool<FairSpillPool>,
    /// The rest of it.
    sort_merges: TrackConsumersPool<FairSpillPool>,
    /// Largest size of a batch of a sort that keeps no other rows.
    largest_batch: usize,
}

impl QueryMemory {
    /// Memory of at most `bytes`, and for sorts as much again.
    pub fn new(bytes: usize) -> Self {
        let pool = |bytes: usize| TrackConsumersPool::new(FairSpillPool::new(bytes), NAMED_OPERATORS);
        Self {
            operators: pool(bytes),
            sort_rows: pool(bytes / 5),
            sort_merges: pool(bytes - bytes / 5),
            largest_batch: bytes,
        }
    }

    /// Memory from which a consumer takes its own.
    fn of(&self, consumer: &MemoryConsumer) -> &TrackConsumersPool<FairSpillPool> {
        match consumer.name() {
            name if name.starts_with(SORT_ROWS) => &self.sort_rows,
            name if name.starts_with(SORT_MERGES) => &self.sort_merges,
            _ => &self.operators,
        }
    }
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.operators.fmt(f)
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
        let pool = self.of(reservation.consumer());
        pool.try_grow(reservation, additional).or_else(|error| {
            // Without rows that it could write to a file, a sort cannot make room, and its batch is in memory already.
            let is_first = reservation.size() == 0 && reservation.consumer().name().starts_with(SORT_ROWS);
            if !is_first || pool.reserved().saturating_add(additional) > self.largest_batch {
                return Err(error);
            }
            pool.grow(reservation, additional);
            Ok(())
        })
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
    use std::sync::Arc;

    use super::*;

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
