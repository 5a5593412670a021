//! Parallel map of a stage: worker threads map blocks, which become parts of a table in the order of the blocks.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use crossbeam::atomic::AtomicCell;

use crate::ordered_map::{MemoryBudget, ordered_map};
use crate::progress_reporter::{ProgressReporter, ROWS, now};
use crate::ranks::{SharedPart, SharedParts};
use crate::reader::{BlockReader, TableReader, batch_bytes};
use crate::writer::{ArtefactCommitter, RowsOfPart, TableWriter};
use pairloom_base::error::Result;
use pairloom_base::runtime::{CancelToken, Resources};
use pairloom_stage::{MapBlock, MapFn, MapOutput, Progress};

/// A parallel map into one table output.
pub(super) struct ParallelMap<'m, 'e> {
    pub budget: &'m MemoryBudget,
    pub resources: &'m Resources,
    pub progress: &'m mut ProgressReporter<'e>,
    pub writer: &'m mut TableWriter,
    pub committer: &'m mut ArtefactCommitter<'e>,
    /// Rows or indices of a block.
    pub size: usize,
    pub function: &'m MapFn<'m>,
    /// Blocks of other ranks, if there are several.
    pub shared: Option<SharedParts>,
    /// Number of rows that were copied from earlier results in this run.
    pub copied: &'m mut u64,
}

/// State that the thread that reads blocks shares with the thread that publishes parts.
#[derive(Default)]
struct MapSignals {
    /// Number of rows or indices that are done.
    done: AtomicCell<u64>,
    /// Total number of rows or indices, once known.
    total: AtomicCell<Option<u64>>,
    /// True while the reader waits for the producer.
    is_waiting: AtomicCell<bool>,
    /// Time that the reader waited for the first block. Later waits overlap with work.
    first_wait: AtomicCell<Option<Duration>>,
}

impl MapSignals {
    fn progress(&self) -> Progress {
        Progress { done: self.done.load(), total: self.total.load(), unit: ROWS }
    }
}

/// Mapped block, encoded as a part that is not yet published.
struct EncodedPart {
    /// Number of the block.
    block: usize,
    /// Rows or indices of the block.
    units: usize,
    /// Rows of the output, unless another rank mapped the block or an earlier result has them.
    batch: Option<RecordBatch>,
    part: SharedPart,
}

impl ParallelMap<'_, '_> {
    /// Maps the rows of a table. Returns their number, and the time that it waited for the producer before the first
    /// block.
    pub fn map_rows(mut self, reader: &mut TableReader) -> Result<(u64, Duration)> {
        let begin = self.skip_committed();
        // Cancelled by the first error, so that the reader stops waiting for its producer.
        let stop = self.resources.cancel.child();
        let (name, cancel) = (reader.name.clone(), std::mem::replace(&mut reader.cancel, stop.clone()));
        reader.rewind();
        reader.skip(begin);
        let signals = MapSignals { done: (begin as u64).into(), ..MapSignals::default() };
        let report_wait = self.progress.wait_reporter();
        let (begun, mut at) = (now(), begin);
        let mut blocks = BlockReader::new(reader, self.size);
        let source = || {
            let block = blocks.next(&mut |name| {
                if !signals.is_waiting.swap(true) {
                    report_wait(signals.progress(), Some(name.to_owned()));
                }
            })?;
            if signals.first_wait.load().is_none() {
                signals.first_wait.store(Some(if signals.is_waiting.load() {
                    begun.elapsed()
                } else {
                    Duration::ZERO
                }));
            }
            let total = blocks.total_rows();
            // The first block may take long, so the total is shown before it is done.
            if (signals.total.swap(total) != total) | signals.is_waiting.swap(false) {
                report_wait(signals.progress(), None);
            }
            Ok(block.map(|rows| {
                let range = at..at + rows.num_rows();
                at = range.end;
                let weight = batch_bytes(&rows);
                (MapBlock { range, rows }, weight)
            }))
        };
        let mapped = self.run_blocks(&stop, &signals, &name, source);
        reader.rewind();
        reader.cancel = cancel;
        mapped.map(|done| (signals.total.load().unwrap_or(done), signals.first_wait.load().unwrap_or_default()))
    }

    /// Maps the indices `0..count`.
    pub fn map_range(mut self, count: usize) -> Result<()> {
        let (begin, size) = (self.skip_committed(), self.size);
        let mut at = begin;
        let signals =
            MapSignals { done: (begin as u64).into(), total: Some(count as u64).into(), ..MapSignals::default() };
        let source = || {
            let range = at..count.min(at + size);
            at += size;
            if range.is_empty() {
                return Ok(None);
            }
            Ok(Some((MapBlock { range, rows: RecordBatch::new_empty(Schema::empty().into()) }, 1)))
        };
        let stop = self.resources.cancel.child();
        self.run_blocks(&stop, &signals, "", source).map(|_| ())
    }

    /// Skips the blocks that an earlier run committed, and returns the number of their rows or indices.
    fn skip_committed(&mut self) -> usize {
        let parts = self.committer.committed.tables.get(self.writer.table()).map_or(&[][..], Vec::as_slice);
        self.writer.count_committed(parts.iter().map(|part| part.rows).sum());
        parts.len() * self.size
    }

    /// Maps the blocks of `source`. Returns the number of rows or indices up to the last block.
    fn run_blocks(
        self,
        stop: &CancelToken,
        signals: &MapSignals,
        name: &str,
        source: impl FnMut() -> Result<Option<(MapBlock, u64)>> + Send,
    ) -> Result<u64> {
        let Self { budget, resources, progress, writer, committer, function, size, shared, copied } = self;
        // The rate of the stage is measured from here.
        progress.report_progress(signals.progress());
        let work = |block: MapBlock| {
            let (number, units) = (block.range.start / size, block.range.len());
            match &shared {
                Some(shared) if !shared.is_own(number) => match shared.wait(number, stop)? {
                    Some(part) => {
                        let bytes = part.content.len() as u64;
                        Ok((EncodedPart { block: number, units, batch: None, part }, bytes))
                    }
                    // What a killed run left may name a result that is gone.
                    None => encode_part(number, units, function(&block)?),
                },
                _ => encode_part(number, units, function(&block)?),
            }
        };
        let sink = |EncodedPart { block, units, batch, part }: EncodedPart| {
            let SharedPart { rows, warnings, row_keys, part_key: key, copied: copied_rows, content, object } = part;
            batch.map_or(Ok(()), |batch| writer.check(&batch))?;
            for warning in &warnings {
                progress.report_warning(warning);
            }
            committer.commit_part(
                writer.table(),
                content,
                RowsOfPart { rows, warnings, row_keys, key, linked_to: object },
            )?;
            writer.count_committed(rows);
            *copied += copied_rows;
            if let Some(shared) = shared.as_ref().filter(|shared| !shared.is_own(block)) {
                shared.remove(block)?;
            }
            signals.done.store(signals.done.load() + units as u64);
            progress.report_progress(signals.progress());
            if signals.is_waiting.load() {
                progress.report_waiting(name);
            }
            Ok(())
        };
        ordered_map(budget, stop, resources.threads, source, work, sink)?;
        Ok(signals.done.load())
    }
}

/// Encodes the rows of a block as a part. Also returns the bytes that rows and part take in memory.
fn encode_part(block: usize, units: usize, mapped: MapOutput) -> Result<(EncodedPart, u64)> {
    let (batch, part) = SharedPart::encode(mapped)?;
    let bytes = batch.as_ref().map_or(0, batch_bytes) + part.content.len() as u64;
    Ok((EncodedPart { block, units, batch, part }, bytes))
}
