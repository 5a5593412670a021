//! The stream of batches of an epoch.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender, bounded};

use super::ahead::{Ahead, stretches};
use super::batch::{Allocate, Batch};
use super::builder::{Builder, Built, Mapped, now};
use super::data::Data;
use crate::error::{Error, Result};
use crate::kernels::epoch::{Order, Plan, Stretch};
use crate::runtime::Stalls;

/// Batches that each thread may have ready: while the trainer takes one, another waits and a third is being filled.
const READY: usize = 2;

/// Where a stream begins, and whose it is.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// The epoch.
    pub epoch: u64,
    /// The first batch.
    pub batch: usize,
    /// This rank.
    pub rank: usize,
    /// All ranks.
    pub ranks: usize,
    /// Threads that put batches together.
    pub threads: usize,
}

impl Start {
    /// The whole of every batch from `batch` of `epoch` on.
    #[must_use]
    pub fn alone(epoch: u64, batch: usize, threads: usize) -> Self {
        Self { epoch, batch, rank: 0, ranks: 1, threads }
    }
}

/// The batches of an epoch in order, put together by threads of their own.
///
/// Thread `t` of `n` makes every `n`-th batch, and keeps at most two of them ready; so memory is bounded by
/// 3·`n` + 1 batches. An error comes in the place of the batch that it happened to, and ends the stream.
pub struct Loader {
    data: Arc<Data>,
    plan: Arc<Plan>,
    stretches: Arc<Vec<Stretch>>,
    receivers: Vec<Receiver<Result<Built>>>,
    threads: Vec<JoinHandle<()>>,
    ahead: Ahead,
    first: usize,
    next: usize,
    stalls: Stalls,
    /// When the last call returned.
    returned: Option<Instant>,
}

impl Loader {
    /// Starts to read.
    ///
    /// # Errors
    /// More ranks than samples in a batch, no such rank, or no threads.
    pub fn start(data: Arc<Data>, plan: Arc<Plan>, start: Start, allocate: &Allocate) -> Result<Self> {
        let Start { epoch, batch, rank, ranks, threads } = start;
        if rank >= ranks {
            return Err(Error::usage(format!("rank {rank} of {ranks}, wanted one below {ranks}")));
        }
        let most = plan.batch(0).len();
        if ranks > most {
            return Err(Error::usage(format!("{ranks} ranks share batches of {most} samples: some would have none"))
                .hint("use at most as many ranks as a batch has samples"));
        }
        let stretches = Arc::new(stretches(&plan.epoch(epoch), &data));
        let mut this = Self {
            ahead: Ahead::default(),
            receivers: vec![],
            threads: vec![],
            first: batch,
            next: batch,
            stalls: Stalls::default(),
            returned: None,
            data,
            plan,
            stretches,
        };
        this.read_ahead();
        let count = threads.clamp(1, (this.plan.batches().saturating_sub(batch)).max(1));
        for thread in 0..count {
            let (sender, receiver) = bounded(READY);
            let work = Work {
                data: Arc::clone(&this.data),
                plan: Arc::clone(&this.plan),
                stretches: Arc::clone(&this.stretches),
                allocate: Arc::clone(allocate),
                start,
                first: batch + thread,
                step: count,
                sender,
            };
            let builder = std::thread::Builder::new().name(format!("reader {thread}"));
            let spawned = builder.spawn(move || work.run());
            this.threads.push(spawned.map_err(|error| Error::stage(format!("cannot start a thread: {error}")))?);
            this.receivers.push(receiver);
        }
        Ok(this)
    }

    /// The next batch; `None` at the end of the epoch. `proceed` is asked while there is nothing to do but wait.
    ///
    /// # Errors
    /// A shard cannot be read, or `proceed` fails.
    pub fn next(&mut self, proceed: impl Fn() -> Result<()>) -> Result<Option<Batch>> {
        if self.next == self.plan.batches() {
            return Ok(None);
        }
        let called = now();
        if let Some(returned) = self.returned {
            self.stalls.trainer += called.duration_since(returned).as_secs_f64();
        }
        self.read_ahead();
        let receiver = &self.receivers[(self.next - self.first) % self.receivers.len()];
        let built = loop {
            // Short, so that a cancellation is seen soon.
            match receiver.recv_timeout(Duration::from_millis(50)) {
                Ok(built) => break built?,
                Err(error) if error.is_timeout() => proceed()?,
                Err(_) => return Err(Error::internal("a reader thread ended before its epoch")),
            }
        };
        self.next += 1;
        let returned = now();
        let waited = returned.duration_since(called).as_secs_f64();
        let (storage, decode) = (built.storage.as_secs_f64(), built.decode.as_secs_f64());
        let storage = waited * storage / (storage + decode).max(f64::MIN_POSITIVE);
        self.stalls += Stalls { storage, decode: waited - storage, trainer: 0.0 };
        self.returned = Some(returned);
        Ok(Some(built.batch))
    }

    /// What the trainer waited for so far.
    #[must_use]
    pub fn stalls(&self) -> Stalls {
        self.stalls
    }

    fn read_ahead(&mut self) {
        let position = self.plan.batch(self.next).start;
        self.ahead.drive(position, &self.stretches, &self.data);
    }
}

/// The threads end at their next batch, which nobody takes.
impl Drop for Loader {
    fn drop(&mut self) {
        self.receivers.clear();
        for thread in self.threads.drain(..) {
            // A panic has been told already, in the place of a batch.
            let _ = thread.join();
        }
        self.ahead.release(&self.stretches, &self.data, self.plan.order() != Order::Global);
    }
}

/// What a thread needs.
struct Work {
    data: Arc<Data>,
    plan: Arc<Plan>,
    stretches: Arc<Vec<Stretch>>,
    allocate: Allocate,
    start: Start,
    first: usize,
    step: usize,
    sender: Sender<Result<Built>>,
}

impl Work {
    fn run(self) {
        let epoch = self.plan.epoch(self.start.epoch);
        let mut builder = Builder {
            data: &self.data,
            plan: &self.plan,
            epoch: &epoch,
            number: self.start.epoch,
            rank: self.start.rank,
            ranks: self.start.ranks,
            allocate: &self.allocate,
            home: bounded(READY + 2),
            mapped: Mapped::default(),
            samples: vec![],
        };
        let mut behind = Ahead::default();
        for number in (self.first..self.plan.batches()).step_by(self.step) {
            behind.forget(self.plan.batch(number).start, &self.stretches, &mut builder.mapped);
            let build = std::panic::AssertUnwindSafe(|| builder.build(number));
            let built = std::panic::catch_unwind(build)
                .unwrap_or_else(|_| Err(Error::internal(format!("batch {number}: a reader thread panicked"))));
            let failed = built.is_err();
            if self.sender.send(built).is_err() || failed {
                return;
            }
        }
    }
}
