//! Memory of the operators of queries.
//!
//! A sort that uses up its memory sorts what it has, batch by batch, merges the batches and writes them to a temporary file.
//! The merge needs memory as well: 26 bytes a row for two keys of 8 bytes. DataFusion sets 10 MB aside for it, enough for 48
//! batches, and the sort fails where it has more of them. Here merges have memory of their own.

use std::fmt;
use std::num::NonZeroUsize;

use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, TrackConsumersPool,
};

/// Operators that an error about memory names.
const NAMED_OPERATORS: NonZeroUsize = NonZeroUsize::new(3).unwrap();
/// Start of the names of DataFusion's consumers that merge sorted batches.
const MERGE: &str = "ExternalSorterMerge";

/// Memory of the operators of queries: a limit for all of them, and as much again for merges of sorted rows.
#[derive(Debug)]
pub(super) struct QueryMemory {
    operators: TrackConsumersPool<FairSpillPool>,
    merges: GreedyMemoryPool,
}

impl QueryMemory {
    /// Memory of at most `bytes`, without merges.
    pub fn new(bytes: usize) -> Self {
        let operators = TrackConsumersPool::new(FairSpillPool::new(bytes), NAMED_OPERATORS);
        Self { operators, merges: GreedyMemoryPool::new(bytes) }
    }

    /// Memory from which a consumer takes its own.
    fn of(&self, consumer: &MemoryConsumer) -> &dyn MemoryPool {
        if consumer.name().starts_with(MERGE) { &self.merges } else { &self.operators }
    }
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.operators.fmt(f)
    }
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &str {
        self.operators.name()
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
        self.of(reservation.consumer()).try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.operators.reserved() + self.merges.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.operators.memory_limit()
    }
}
