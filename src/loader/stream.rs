//! Stream of batches.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender, bounded};

use super::batch::{AllocateBuffer, Batch};
use super::builder::{BatchBuilder, BuiltBatch, MappedColumns, now};
use super::data::LoaderData;
use super::order::{BatchOrder, SelectedRows};
use super::prefetch::Prefetcher;
use pairloom_base::error::{Error, Result, caught, panic_error};
use pairloom_base::runtime::Stalls;
use pairloom_kernels::epoch::{DataOrder, ShardWindow};

/// Maximum number of finished batches of a thread. While the trainer uses one batch, another waits and a third is being
/// filled.
const BATCHES_PER_THREAD: usize = 2;

/// Start of a stream of batches: position, rank and number of threads.
#[derive(Debug, Clone, Copy)]
pub struct LoaderStart {
    /// Epoch.
    pub epoch: u64,
    /// First batch.
    pub first_batch: usize,
    /// Rank of this process.
    pub rank: usize,
    /// Number of ranks.
    pub world_size: usize,
    /// Number of threads that assemble batches.
    pub threads: usize,
}

impl LoaderStart {
    /// Start of a single rank at `first_batch` of `epoch`.
    #[must_use]
    pub fn single_rank(epoch: u64, first_batch: usize, threads: usize) -> Self {
        Self { epoch, first_batch, rank: 0, world_size: 1, threads }
    }
}

/// Loader of the batches of an epoch, or of given rows, in order. Background threads assemble them.
///
/// Each of `n` threads assembles every `n`-th batch and keeps at most two finished batches, so memory is bounded by
/// 3·`n` + 1 batches. If a batch fails, the loader returns its error in its place, and the stream ends.
pub struct Loader {
    data: Arc<LoaderData>,
    order: Arc<BatchOrder>,
    windows: Arc<Vec<ShardWindow>>,
    receivers: Vec<Receiver<Result<BuiltBatch>>>,
    threads: Vec<JoinHandle<()>>,
    prefetcher: Prefetcher,
    first_batch: usize,
    next_batch: usize,
    stalls: Stalls,
    /// Time at which the last call of [`Loader::next`] returned.
    last_return: Option<Instant>,
}

impl Loader {
    /// Starts the worker threads on the batches of an epoch.
    ///
    /// # Errors
    /// There are more ranks than samples in a batch, the rank is out of range, or a thread cannot be started.
    pub fn start(
        data: Arc<LoaderData>,
        order: Arc<DataOrder>,
        start: LoaderStart,
        allocate: &AllocateBuffer,
    ) -> Result<Self> {
        let LoaderStart { first_batch, rank, world_size, threads, .. } = start;
        if rank >= world_size {
            return Err(Error::usage(format!("rank {rank} of {world_size}, expected one below {world_size}")));
        }
        let most = order.batch_positions(0).len();
        if world_size > most {
            return Err(Error::usage(format!(
                "{world_size} ranks share batches of {most} samples: some would have none"
            ))
            .hint("use at most as many ranks as a batch has samples"));
        }
        Self::start_at(data, BatchOrder::Epoch(order, start), first_batch, threads, allocate)
    }

    /// Starts `threads` worker threads on given rows of the table of samples.
    ///
    /// # Errors
    /// The table is damaged, or a thread cannot be started.
    pub fn start_on_rows(
        data: Arc<LoaderData>,
        rows: SelectedRows,
        threads: usize,
        allocate: &AllocateBuffer,
    ) -> Result<Self> {
        Self::start_at(data, BatchOrder::Rows(rows), 0, threads, allocate)
    }

    fn start_at(
        data: Arc<LoaderData>,
        order: BatchOrder,
        first_batch: usize,
        threads: usize,
        allocate: &AllocateBuffer,
    ) -> Result<Self> {
        let windows = Arc::new(order.windows(&data)?);
        let mut this = Self {
            prefetcher: Prefetcher::default(),
            receivers: vec![],
            threads: vec![],
            first_batch,
            next_batch: first_batch,
            stalls: Stalls::default(),
            last_return: None,
            data,
            order: Arc::new(order),
            windows,
        };
        this.prefetch();
        let count = threads.clamp(1, (this.order.batch_count().saturating_sub(first_batch)).max(1));
        for thread in 0..count {
            let (sender, receiver) = bounded(BATCHES_PER_THREAD);
            let worker = LoaderWorker {
                data: Arc::clone(&this.data),
                order: Arc::clone(&this.order),
                windows: Arc::clone(&this.windows),
                allocate: Arc::clone(allocate),
                first: first_batch + thread,
                step: count,
                sender,
            };
            let builder = std::thread::Builder::new().name(format!("loader worker {thread}"));
            let spawned = builder.spawn(move || worker.run());
            this.threads.push(spawned.map_err(|error| Error::stage(format!("cannot start a thread: {error}")))?);
            this.receivers.push(receiver);
        }
        Ok(this)
    }

    /// Returns the next batch; `None` after the last. Calls `check_cancelled` every 50 ms while it waits.
    ///
    /// # Errors
    /// A shard cannot be read, or `check_cancelled` fails.
    pub fn next(&mut self, check_cancelled: impl Fn() -> Result<()>) -> Result<Option<Batch>> {
        let called = now();
        if let Some(returned) = self.last_return.take() {
            self.stalls.trainer += called.duration_since(returned).as_secs_f64();
        }
        if self.next_batch == self.order.batch_count() {
            return Ok(None);
        }
        self.prefetch();
        let receiver = &self.receivers[(self.next_batch - self.first_batch) % self.receivers.len()];
        let built = loop {
            // A short timeout, so that a cancellation takes effect soon.
            match receiver.recv_timeout(Duration::from_millis(50)) {
                Ok(built) => break built?,
                Err(error) if error.is_timeout() => check_cancelled()?,
                Err(_) => return Err(Error::internal("a loader worker ended before its epoch")),
            }
        };
        self.next_batch += 1;
        let returned = now();
        let waited = returned.duration_since(called).as_secs_f64();
        let (storage, decode) = (built.storage.as_secs_f64(), built.decode.as_secs_f64());
        let storage = waited * storage / (storage + decode).max(f64::MIN_POSITIVE);
        self.stalls += Stalls { storage, decode: waited - storage, trainer: 0.0 };
        self.last_return = Some(returned);
        Ok(Some(built.batch))
    }

    /// Waiting times so far, by cause, and the time that the trainer has used its batches, the current one included.
    #[must_use]
    pub fn stalls(&self) -> Stalls {
        let current = self.last_return.map_or(0.0, |returned| now().duration_since(returned).as_secs_f64());
        Stalls { trainer: self.stalls.trainer + current, ..self.stalls }
    }

    fn prefetch(&mut self) {
        if self.order.rest_of_rows(0).is_some() {
            // The worker reads ahead.
            return;
        }
        let position = self.order.positions(self.next_batch).start;
        self.prefetcher.prefetch(position, &self.windows, &self.data);
    }
}

/// Ends the threads: they stop at their next batch, which cannot be sent.
impl Drop for Loader {
    fn drop(&mut self) {
        self.receivers.clear();
        for thread in self.threads.drain(..) {
            // A panic was already returned as an error in the place of a batch.
            let _ = thread.join();
        }
        self.prefetcher.release_all(&self.windows, &self.data, self.order.releases_shards());
    }
}

/// Worker thread: assembles every `step`-th batch.
struct LoaderWorker {
    data: Arc<LoaderData>,
    order: Arc<BatchOrder>,
    windows: Arc<Vec<ShardWindow>>,
    allocate: AllocateBuffer,
    first: usize,
    step: usize,
    sender: Sender<Result<BuiltBatch>>,
}

impl LoaderWorker {
    fn run(self) {
        let mut builder = BatchBuilder {
            data: &self.data,
            order: &self.order,
            reader: self.order.reader(),
            allocate: &self.allocate,
            recycle: bounded(BATCHES_PER_THREAD + 2),
            mapped: MappedColumns::default(),
            current: None,
            rows: vec![],
        };
        let mut behind = Prefetcher::default();
        for number in (self.first..self.order.batch_count()).step_by(self.step) {
            behind.release_columns(self.order.positions(number).start, &self.windows, &mut builder.mapped);
            let built = caught(|| builder.build(number));
            let built = built.unwrap_or_else(|panic| Err(panic_error(&*panic).context(format!("batch {number}"))));
            let failed = built.is_err();
            if self.sender.send(built).is_err() || failed {
                return;
            }
        }
    }
}
