//! Parallel map of a stage: worker threads map blocks, which become parts of a table in the order of the blocks. The
//! ordered map below it works in bounded memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread as scoped;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use crossbeam::atomic::AtomicCell;
use crossbeam::channel::{Receiver, bounded, unbounded};

use crate::event::{ProgressReporter, ROWS, now};
use crate::inputs::{BlockReader, TableReader, batch_bytes};
use crate::ranks::{SharedPart, SharedParts};
use crate::writer::{ArtefactCommitter, RowsOfPart, TableWriter};
use pairloom_base::error::{Result, catch_panic};
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

/// Limit on the bytes in flight between threads, shared by all parallel maps of a run.
///
/// Every map may always have one item in flight, so no map starves or deadlocks because of another. Therefore the
/// actual bound is the limit plus one item per map.
#[derive(Debug, Clone)]
pub struct MemoryBudget(Arc<BudgetState>);

#[derive(Debug)]
struct BudgetState {
    limit: u64,
    in_flight: Mutex<u64>,
    freed: Condvar,
    peak: AtomicU64,
}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        let state = BudgetState { limit, in_flight: Mutex::new(0), freed: Condvar::new(), peak: AtomicU64::new(0) };
        Self(Arc::new(state))
    }

    /// Peak number of bytes in flight.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.0.peak.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.0.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `bytes` fit, or until the map that counts its items in `items` has no item in flight.
    fn acquire(&self, items: &Arc<AtomicU64>, bytes: u64, cancel: &CancelToken) -> Result<MemoryPermit> {
        let mut in_flight = self.lock();
        while *in_flight + bytes > self.0.limit && items.load(Ordering::SeqCst) > 0 {
            cancel.check()?;
            let pause = Duration::from_millis(50);
            in_flight = self.0.freed.wait_timeout(in_flight, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
        *in_flight += bytes;
        self.0.peak.fetch_max(*in_flight, Ordering::Relaxed);
        items.fetch_add(1, Ordering::SeqCst);
        Ok(MemoryPermit { budget: self.clone(), items_in_flight: Arc::clone(items), bytes })
    }
}

/// Bytes reserved for an item in flight, released on drop.
#[derive(Debug)]
struct MemoryPermit {
    budget: MemoryBudget,
    items_in_flight: Arc<AtomicU64>,
    bytes: u64,
}

impl MemoryPermit {
    /// Changes the reservation to `bytes`, when the result of an item takes the place of the item. Does not wait.
    fn resize(&mut self, bytes: u64) {
        let mut in_flight = self.budget.lock();
        *in_flight = *in_flight - self.bytes + bytes;
        self.bytes = bytes;
        self.budget.0.peak.fetch_max(*in_flight, Ordering::Relaxed);
        self.budget.0.freed.notify_all();
    }
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        let mut in_flight = self.budget.lock();
        *in_flight -= self.bytes;
        self.items_in_flight.fetch_sub(1, Ordering::SeqCst);
        self.budget.0.freed.notify_all();
    }
}

/// Reads items from `source`, maps them on `threads` threads, and passes the results to `sink` in the order of the
/// items.
///
/// `source` returns an item and its size in bytes. `function` returns a result and its size, which replaces the size of
/// the item in the budget until `sink` has returned. For each item the map reserves at least the size of the largest
/// result so far, so it processes the first item alone. At most 2 · `threads` items are in flight, fewer if `budget`
/// requires it. Memory that `function` uses while it runs is not counted.
///
/// The first error cancels `stop`, so that a waiting `source` can end.
///
/// # Errors
/// The first error of `source`, `function` or `sink`, in the order of the items; or an interruption. Everything in
/// flight is dropped.
pub fn ordered_map<T: Send, U: Send>(
    budget: &MemoryBudget,
    stop: &CancelToken,
    threads: usize,
    mut source: impl FnMut() -> Result<Option<(T, u64)>> + Send,
    function: impl Fn(T) -> Result<(U, u64)> + Sync,
    mut sink: impl FnMut(U) -> Result<()>,
) -> Result<()> {
    let threads = threads.max(1);
    let items = Arc::new(AtomicU64::new(0));
    let largest = AtomicU64::new(0);
    let (work_sender, work) = bounded::<(usize, T, MemoryPermit)>(threads);
    #[expect(
        clippy::disallowed_methods,
        reason = "the budget and the work channel limit the number of items in this channel"
    )]
    let (done_sender, done) = unbounded::<(usize, Result<(U, MemoryPermit)>)>();
    scoped::scope(|scope| {
        let source_done = done_sender.clone();
        let (items, largest, function) = (&items, &largest, &function);
        scope.spawn(move || {
            let mut next = || -> Result<Option<(T, MemoryPermit)>> {
                let Some((item, bytes)) = catch_panic(&mut source)? else { return Ok(None) };
                acquire_for_next(budget, items, largest, bytes, threads, stop).map(|permit| Some((item, permit)))
            };
            for index in 0.. {
                match next() {
                    Ok(None) => return,
                    Ok(Some((item, permit))) => {
                        if work_sender.send((index, item, permit)).is_err() {
                            return;
                        }
                    }
                    Err(error) => {
                        let _ = source_done.send((index, Err(error)));
                        return;
                    }
                }
            }
        });
        for _ in 0..threads {
            let (work, done_sender) = (work.clone(), done_sender.clone());
            scope.spawn(move || {
                while let Ok((index, item, mut permit)) = work.recv() {
                    let result = catch_panic(|| stop.check().and_then(|()| function(item)));
                    let result = result.map(|(value, bytes)| {
                        largest.fetch_max(bytes.max(1), Ordering::SeqCst);
                        permit.resize(bytes);
                        (value, permit)
                    });
                    if done_sender.send((index, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop((work, done_sender));
        deliver_in_order(&done, stop, |(value, permit)| {
            let pushed = catch_panic(|| sink(value));
            drop(permit);
            pushed
        })
    })
}

/// Passes the results to `sink` in the order of their numbers, up to the first error, which cancels `stop`. Drains
/// `done`.
fn deliver_in_order<V>(
    done: &Receiver<(usize, Result<V>)>,
    stop: &CancelToken,
    mut sink: impl FnMut(V) -> Result<()>,
) -> Result<()> {
    let mut early = BTreeMap::new();
    let mut next = 0;
    let mut outcome = Ok(());
    for (index, result) in done {
        early.insert(index, result);
        while outcome.is_ok() {
            let Some(result) = early.remove(&next) else { break };
            next += 1;
            outcome = result.and_then(&mut sink);
        }
        if outcome.is_err() {
            stop.cancel();
            early.clear();
        }
    }
    outcome
}

/// Waits until the map may have one more item in flight and the bytes fit, and reserves them.
fn acquire_for_next(
    budget: &MemoryBudget,
    items: &Arc<AtomicU64>,
    largest: &AtomicU64,
    bytes: u64,
    threads: usize,
    stop: &CancelToken,
) -> Result<MemoryPermit> {
    let mut in_flight = budget.lock();
    let most = || if largest.load(Ordering::SeqCst) == 0 { 1 } else { 2 * threads as u64 };
    while items.load(Ordering::SeqCst) >= most() {
        stop.check()?;
        let pause = Duration::from_millis(50);
        in_flight = budget.0.freed.wait_timeout(in_flight, pause).unwrap_or_else(PoisonError::into_inner).0;
    }
    drop(in_flight);
    budget.acquire(items, bytes.max(largest.load(Ordering::SeqCst)), stop)
}

#[cfg(test)]
mod tests {

    use super::*;
    use pairloom_base::error::Error;

    fn numbers(n: u64, bytes: u64) -> impl FnMut() -> Result<Option<(u64, u64)>> + Send {
        let mut at = 0;
        move || {
            at += 1;
            Ok((at <= n).then_some((at, bytes)))
        }
    }

    #[test]
    fn results_arrive_in_the_order_of_the_items() {
        let mut got = Vec::new();
        let slow_when_odd = |n: u64| {
            if n % 2 == 1 {
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok((n * 10, 1))
        };
        let sink = |n| {
            got.push(n);
            Ok(())
        };
        ordered_map(&MemoryBudget::new(1 << 20), &CancelToken::new(), 4, numbers(50, 1), slow_when_odd, sink).unwrap();
        assert_eq!(got, (1..=50).map(|n| n * 10).collect::<Vec<_>>());
    }

    #[test]
    fn a_slow_consumer_keeps_a_fast_producer_within_the_limit() {
        let budget = MemoryBudget::new(1000);
        let slow = |_| {
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        };
        // Without the budget, 2 · 8 items of 300 bytes would be in flight.
        ordered_map(&budget, &CancelToken::new(), 8, numbers(60, 300), |n| Ok((n, 300)), slow).unwrap();
        assert!(budget.peak() <= 1000, "{}", budget.peak());
        assert!(budget.peak() >= 900, "the limit is used: {}", budget.peak());
        assert_eq!(*budget.lock(), 0, "everything is released");
    }

    #[test]
    fn an_item_larger_than_the_limit_is_processed_alone() {
        let budget = MemoryBudget::new(10);
        let mut count = 0;
        let sink = |_| {
            count += 1;
            Ok(())
        };
        ordered_map(&budget, &CancelToken::new(), 4, numbers(5, 100), |n| Ok((n, 100)), sink).unwrap();
        assert_eq!((count, budget.peak()), (5, 100));
    }

    #[test]
    fn the_first_error_in_order_is_returned_and_later_items_are_dropped() {
        let fail = |n: u64| if n >= 7 { Err(Error::data(format!("item {n}"))) } else { Ok((n, 1)) };
        let mut got = Vec::new();
        let sink = |n| {
            got.push(n);
            Ok(())
        };
        let error =
            ordered_map(&MemoryBudget::new(1 << 20), &CancelToken::new(), 3, numbers(1000, 1), fail, sink).unwrap_err();
        assert_eq!((error.to_string().as_str(), got), ("item 7", vec![1, 2, 3, 4, 5, 6]));
    }

    #[test]
    fn an_error_ends_a_waiting_source() {
        let stop = CancelToken::new().child();
        let mut at = 0;
        let source = || {
            at += 1;
            if at == 1 {
                return Ok(Some((at, 1)));
            }
            // After the first item, the source waits until it is cancelled.
            loop {
                stop.check()?;
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let fail = |_: u64| -> Result<(u64, u64)> { Err(Error::data("broken")) };
        let error = ordered_map(&MemoryBudget::new(9), &stop, 2, source, fail, |_| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "broken");
    }

    #[test]
    fn a_panic_is_an_error_and_an_error_of_the_sink_ends_the_map() {
        let panics = |n: u64| if n == 3 { panic!("three") } else { Ok((n, 1)) };
        let error =
            ordered_map(&MemoryBudget::new(9), &CancelToken::new(), 2, numbers(9, 1), panics, |_| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "panicked: three");
        let full = |n: u64| if n == 2 { Err(Error::stage("disk is full")) } else { Ok(()) };
        let error = ordered_map(&MemoryBudget::new(9), &CancelToken::new(), 2, numbers(9, 1), |n| Ok((n, 1)), full)
            .unwrap_err();
        assert_eq!(error.to_string(), "disk is full");
    }
}
