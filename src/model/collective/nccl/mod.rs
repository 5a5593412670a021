//! NCCL: collective operations directly between GPUs.
//!
//! The C interface of NCCL has been stable since version 2.4, so the crate does not link it. Its functions, and five of
//! the CUDA runtime, are looked up at run time when a rank computes on a GPU (`library.rs`). A CUDA build of libtorch
//! ships both libraries.
//!
//! Either all ranks use NCCL or none (`negotiate`). NCCL requires a separate GPU for each rank, so ranks that
//! share a GPU exchange tensors over gloo, through CPU memory.
//!
//! libtorch computes on the *legacy default stream* of a GPU by default, and tch does not change that. NCCL operations
//! are enqueued on the same stream: after the kernels that compute a tensor, and before those that read the result.
//!
//! Each communicator has a thread that makes all its calls. A call may block on a lost rank, for
//! example the first call of an operation, which opens connections; a thread in such a call cannot be cancelled.
//!
//! Tests use a fake NCCL in CPU memory (`testing.rs`). They cover the order of calls, counts, types, padding,
//! cancellation and negotiation. `benches/gpu.py` runs a training over NCCL between two processes on one GPU. Not covered:
//! failures of NCCL, and speed.

#![expect(unsafe_code, reason = "NCCL and CUDA are C")]

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use az::SaturatingAs;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tch::{Device, Kind, Tensor};

use self::library::{
    DEFAULT_STREAM, IN_PROGRESS, NOT_READY, NcclLibrary, RawComm, RawId, SUCCESS, SUM, UniqueId, data_type,
};
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_base::runtime::CancelToken;

pub(super) use self::library::Gpu;

mod library;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

/// Function that sends bytes of this rank and returns those of every rank, in the order of ranks.
pub type AllGatherBytes<'m> = &'m dyn Fn(&[u8]) -> Result<Vec<Vec<u8>>>;

/// Message exchange between the negotiating ranks.
pub(super) struct RankExchange<'m> {
    /// Rank of this process.
    pub rank: usize,
    /// Number of ranks.
    pub world_size: usize,
    pub exchange: AllGatherBytes<'m>,
}

/// NCCL version and GPU of a rank.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NcclOffer {
    version: c_int,
    /// Address of the machine, or its `NCCL_HOSTID`.
    machine: String,
    /// PCI bus id of the GPU.
    bus: String,
}

/// Connects the GPUs of all ranks, or returns the reason why that is not possible; the same on all ranks. `own` is the
/// GPU of this rank, and `machine` the address of its machine, or its `NCCL_HOSTID`.
///
/// # Errors
/// A rank is lost or silent, or `cancel` is cancelled.
pub(super) fn negotiate(
    messages: &RankExchange<'_>,
    own: Result<Gpu, String>,
    machine: &str,
    timeout: Duration,
    cancel: &CancelToken,
) -> Result<Result<Communicator, String>> {
    let own = own.and_then(|gpu| Ok((gpu, offer(gpu, machine)?)));
    let (gpu, own) = match own {
        Ok((gpu, own)) => (Ok(gpu), Ok(own)),
        Err(reason) => (Err(reason.clone()), Err(reason)),
    };
    let offers = exchange_results(messages, &own)?.and_then(|offers| find_obstacle(&offers).map_or(Ok(()), Err));
    let gpu = match offers.and(gpu) {
        Ok(gpu) => gpu,
        Err(reason) => return Ok(Err(reason)),
    };
    // Only the id of rank 0 is used.
    let id = if messages.rank == 0 { gpu.library.unique_id().map(|id| id.to_vec()) } else { Ok(vec![]) };
    let ids = match exchange_results(messages, &id)? {
        Ok(ids) => ids,
        Err(reason) => return Ok(Err(reason)),
    };
    let Ok(id) = UniqueId::try_from(ids[0].as_slice()) else {
        return Err(Error::internal(format!("an id of {} bytes, expected 128", ids[0].len())));
    };
    // Shorter than the timeout of gloo, with which other ranks wait for this one.
    let short_timeout = timeout / 2;
    let connected = Communicator::connect(gpu, id, messages.rank, messages.world_size, short_timeout, cancel)?;
    let mut result = exchange_results(messages, &connected.as_ref().map(|_| ()).map_err(Clone::clone))?;
    if let (Ok(_), Ok(connected)) = (&result, &connected) {
        result = exchange_results(messages, &run_trial(connected, messages)?)?;
    }
    if result.is_err() {
        connected.iter().for_each(Communicator::abort);
    }
    Ok(result.and(connected).map(|connected| connected.with_timeout(timeout)))
}

fn offer(gpu: Gpu, machine: &str) -> Result<NcclOffer, String> {
    let (version, bus) = (gpu.library.version()?, gpu.library.bus_id(gpu.number)?);
    Ok(NcclOffer { version, machine: machine.to_owned(), bus })
}

/// Reason why NCCL cannot connect these ranks, if there is one.
fn find_obstacle(offers: &[NcclOffer]) -> Option<String> {
    let mut taken = HashMap::new();
    for (rank, NcclOffer { version, machine, bus }) in offers.iter().enumerate() {
        if *version != offers[0].version {
            return Some(format!("rank 0 has NCCL {}, and rank {rank} has {version}", offers[0].version));
        }
        if let Some(other) = taken.insert((machine, bus), rank) {
            return Some(format!("ranks {other} and {rank} share the GPU at {bus}, and NCCL requires one for each"));
        }
    }
    None
}

/// Runs the first operations of a communicator, which open the connections between GPUs, and checks their results.
fn run_trial(nccl: &Communicator, messages: &RankExchange<'_>) -> Result<Result<(), String>> {
    let ranks = messages.world_size.saturating_as::<i64>();
    let rank = messages.rank.saturating_as::<i64>();
    let options = (Kind::Int64, nccl.device());
    let (own, all) = (Tensor::full([3], rank + 1, options), Tensor::zeros([ranks * 3], options));
    if let Err(reason) = refusal_unless_interrupted(
        nccl.all_gather(&own, &all).and_then(|()| nccl.all_reduce_sum(std::slice::from_ref(&own))),
    )? {
        return Ok(Err(reason));
    }
    let expected: Vec<i64> = (1..=ranks).flat_map(|number| [number; 3]).chain([ranks * (ranks + 1) / 2; 3]).collect();
    let got = Vec::<i64>::try_from(Tensor::cat(&[all, own], 0)).unwrap_or_default();
    Ok(if got == expected { Ok(()) } else { Err(format!("a trial gave {got:?}, expected {expected:?}")) })
}

/// Exchanges results between the ranks. Returns the values of all ranks in their order, or the reason of the first rank
/// that has none.
fn exchange_results<T: Serialize + DeserializeOwned>(
    messages: &RankExchange<'_>,
    own: &Result<T, String>,
) -> Result<Result<Vec<T>, String>> {
    let own = serde_json::to_vec(own).map_err(|error| Error::internal(error.to_string()))?;
    let mut all = Vec::with_capacity(messages.world_size);
    for (rank, answer) in (messages.exchange)(&own)?.into_iter().enumerate() {
        let answer: Result<T, String> = serde_json::from_slice(&answer).map_err(|error| {
            Error::stage(format!("rank {} cannot parse the message of rank {rank}: {error}", messages.rank))
        })?;
        match answer {
            Ok(answer) => all.push(answer),
            Err(reason) => return Ok(Err(format!("rank {rank}: {reason}"))),
        }
    }
    Ok(Ok(all))
}

/// Time between two checks for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time to wait for the end of an aborted call, and for the end of the thread.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
/// Number of polls of a stream before the first pause. They take some 50 µs; most operations are finished by then.
const SPIN_POLLS: u32 = 50;
/// Longest pause between two polls of a stream.
const MAX_POLL_INTERVAL: Duration = Duration::from_micros(500);

/// NCCL communicator of a rank. Each rank has a GPU of its own. All ranks must call the same operations in the same
/// order.
///
/// After an error all further operations fail.
pub(super) struct Communicator {
    device: Device,
    batches: Option<SyncSender<CollectiveBatch>>,
    /// Set to make the thread abort the operation that it waits for.
    stop: Arc<AtomicBool>,
    /// Channel without messages, which is closed when the thread ends.
    ended: Receiver<()>,
    timeout: Duration,
    cancel: CancelToken,
}

impl Communicator {
    /// Connects rank `rank` of `world_size` ranks, which must have the same `id`. Returns the reason if NCCL fails, for
    /// example because a rank did not arrive in time.
    ///
    /// # Errors
    /// `cancel` is cancelled.
    pub fn connect(
        gpu: Gpu,
        id: UniqueId,
        rank: usize,
        world_size: usize,
        timeout: Duration,
        cancel: &CancelToken,
    ) -> Result<Result<Self, String>> {
        let (Ok(c_rank), Ok(c_world_size)) = (c_int::try_from(rank), c_int::try_from(world_size)) else {
            return Ok(Err(format!("{world_size} ranks, expected fewer")));
        };
        let (stop, (batches, batch_receiver), (end_sender, ended)) =
            (Arc::<AtomicBool>::default(), sync_channel::<CollectiveBatch>(1), sync_channel(0));
        let (opened_sender, opened_receiver) = sync_channel(1);
        let stopped = Arc::clone(&stop);
        let work = move || {
            let _end_sender: SyncSender<()> = end_sender;
            let comm = NcclComm::open(gpu, id, c_rank, c_world_size, stopped);
            let (comm, result) = match comm {
                Ok(comm) => (Some(comm), Ok(())),
                Err(why) => (None, Err(why)),
            };
            if opened_sender.send(result).is_ok()
                && let Some(comm) = comm
            {
                comm.serve(&batch_receiver);
            }
        };
        let thread = std::thread::Builder::new().name("nccl".to_owned()).spawn(work);
        thread.map_err(|error| Error::internal(format!("no thread: {error}")))?;
        let this = Self { device: gpu.device, batches: Some(batches), stop, ended, timeout, cancel: cancel.clone() };
        Ok(refusal_unless_interrupted(this.wait_for_answer(&opened_receiver))?.and_then(|opened| opened).map(|()| this))
    }

    /// Sets the timeout of later operations.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Makes the communicator abort when it is dropped, without waiting for the other ranks.
    pub fn abort(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Device of the tensors that this communicator supports.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Returns true if device and type of the tensor are supported.
    pub fn supports(&self, tensor: &Tensor) -> bool {
        tensor.device() == self.device && data_type(tensor.kind()).is_some()
    }

    /// Fills `all` with the tensors `own` of all ranks, in their order. `own` must have equally many values on all
    /// ranks.
    ///
    /// # Errors
    /// A rank is lost or silent, or the run was cancelled.
    pub fn all_gather(&self, own: &Tensor, all: &Tensor) -> Result<()> {
        self.run_batch(vec![CollectiveCall::Gather { own: own.shallow_clone(), all: all.shallow_clone() }])
    }

    /// Replaces each of `flats`, in place, by its sum over all ranks. NCCL sums every value on one rank and distributes
    /// the result, so it is bitwise equal on all ranks: <https://github.com/NVIDIA/nccl/issues/855>.
    pub fn all_reduce_sum(&self, flats: &[Tensor]) -> Result<()> {
        self.run_batch(flats.iter().map(|flat| CollectiveCall::Sum(flat.shallow_clone())).collect())
    }

    fn run_batch(&self, calls: Vec<CollectiveCall>) -> Result<()> {
        let (done, answer) = sync_channel(1);
        let batches = self.batches.as_ref().filter(|_| !self.stop.load(Ordering::SeqCst)).ok_or_else(disconnected)?;
        batches.send(CollectiveBatch { calls, done }).map_err(|_| disconnected())?;
        self.wait_for_answer(&answer)?.map_err(Error::peer)
    }

    /// Waits for an answer of the thread. Aborts on timeout or cancellation.
    fn wait_for_answer<T>(&self, answer: &Receiver<T>) -> Result<T> {
        let mut waited = Duration::ZERO;
        loop {
            match answer.recv_timeout(POLL_INTERVAL) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) => return Err(disconnected()),
                Err(RecvTimeoutError::Timeout) => waited += POLL_INTERVAL,
            }
            let timed_out = || Error::peer(format!("NCCL has waited {} s for another rank", self.timeout.as_secs()));
            let timeout = if waited >= self.timeout { Err(timed_out()) } else { Ok(()) };
            if let Err(error) = self.cancel.check().and(timeout) {
                self.abort();
                // If the call of NCCL does not return, the thread stays blocked with its tensors; the process ends
                // soon.
                let _ = answer.recv_timeout(SHUTDOWN_TIMEOUT);
                return Err(error);
            }
        }
    }
}

fn disconnected() -> Error {
    Error::peer("the NCCL communicator is closed")
}

/// Turns an error into the reason not to use NCCL, unless it is an interruption.
pub fn refusal_unless_interrupted<T>(result: Result<T>) -> Result<Result<T, String>> {
    match result {
        Err(error) if error.category() == ErrorCategory::Interrupted => Err(error),
        result => Ok(result.map_err(|error| error.to_string())),
    }
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Communicator").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.batches = None;
        // The thread waits here for the other ranks of its machine. The wait never ends if one of them is lost.
        let _ = self.ended.recv_timeout(SHUTDOWN_TIMEOUT);
    }
}

/// Collective operation, with the tensors that it reads and writes. They must be kept until it is finished.
enum CollectiveCall {
    Gather { own: Tensor, all: Tensor },
    Sum(Tensor),
}

/// Collective operations that are waited for together.
struct CollectiveBatch {
    calls: Vec<CollectiveCall>,
    done: SyncSender<Result<(), String>>,
}

/// Owner of the `ncclComm_t`. It stays on the thread that created it.
struct NcclComm {
    library: NcclLibrary,
    comm: RawComm,
    stop: Arc<AtomicBool>,
    broken: bool,
}

impl NcclComm {
    /// Creates the communicator. Waits for all ranks.
    fn open(gpu: Gpu, id: UniqueId, rank: c_int, ranks: c_int, stop: Arc<AtomicBool>) -> Result<Self, String> {
        let library = gpu.library;
        // The device applies to all later calls of this thread.
        // SAFETY: any number is a valid argument.
        library.cuda("cudaSetDevice", unsafe { (library.cuda_set_device)(gpu.number) })?;
        let mut comm = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call.
        let result = unsafe { (library.comm_init_rank)(&raw mut comm, ranks, RawId(id), rank) };
        library.nccl("ncclCommInitRank", result)?;
        Ok(Self { library, comm, stop, broken: false })
    }

    /// Runs batches until the channel is closed or an operation fails.
    fn serve(mut self, batches: &Receiver<CollectiveBatch>) {
        while let Ok(CollectiveBatch { calls, done }) = batches.recv() {
            let result = calls.iter().try_for_each(|call| self.begin(call)).and_then(|()| self.wait());
            self.broken = result.is_err();
            if self.broken {
                // Aborts pending operations, so that the tensors can be freed.
                drop(self);
                drop(calls);
                let _ = done.send(result);
                return;
            }
            drop(calls);
            let _ = done.send(result);
        }
    }

    /// Enqueues an operation on the stream.
    fn begin(&self, call: &CollectiveCall) -> Result<(), String> {
        let kind = |tensor: &Tensor| {
            data_type(tensor.kind()).ok_or_else(|| format!("NCCL has no type for {:?}", tensor.kind()))
        };
        let Self { library, comm, .. } = self;
        match call {
            CollectiveCall::Gather { own, all } => {
                let (from, to, kind) = (own.data_ptr(), all.data_ptr(), kind(own)?);
                // SAFETY: the tensors are contiguous, `all` has space for the values of all ranks, and both outlive the
                // operation.
                let result = unsafe { (library.all_gather)(from, to, own.numel(), kind, *comm, DEFAULT_STREAM) };
                library.nccl("ncclAllGather", result)
            }
            CollectiveCall::Sum(flat) => {
                let (at, kind) = (flat.data_ptr(), kind(flat)?);
                // SAFETY: the tensor is contiguous and outlives the operation, which may work in place.
                let result = unsafe { (library.all_reduce)(at, at, flat.numel(), kind, SUM, *comm, DEFAULT_STREAM) };
                library.nccl("ncclAllReduce", result)
            }
        }
    }

    /// Waits until all operations on the stream are finished.
    fn wait(&self) -> Result<(), String> {
        let Self { library, comm, .. } = self;
        let (mut polls, mut pause) = (0, Duration::from_micros(20));
        loop {
            let mut state = SUCCESS;
            // SAFETY: the communicator is open, and the pointer valid for the call.
            let result = unsafe { (library.comm_get_async_error)(*comm, &raw mut state) };
            library.nccl("ncclCommGetAsyncError", result)?;
            if state != IN_PROGRESS {
                library.nccl("a collective", state)?;
            }
            // SAFETY: this stream always exists.
            let result = unsafe { (library.cuda_stream_query)(DEFAULT_STREAM) };
            if result != NOT_READY {
                return library.cuda("cudaStreamQuery", result);
            }
            // CUDA stores "not ready" as the last error, which the next caller would take for its own.
            // SAFETY: the function has no arguments.
            unsafe { (library.cuda_get_last_error)() };
            if self.stop.load(Ordering::SeqCst) {
                return Err("aborted".to_owned());
            }
            polls += 1;
            if polls <= SPIN_POLLS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(pause);
                pause = MAX_POLL_INTERVAL.min(pause * 2);
            }
        }
    }
}

impl Drop for NcclComm {
    fn drop(&mut self) {
        let is_broken = self.broken || self.stop.load(Ordering::SeqCst);
        let end = if is_broken { self.library.comm_abort } else { self.library.comm_destroy };
        // An error is ignored, since nothing can be done about it.
        // SAFETY: the communicator is open and not used any more.
        unsafe { end(self.comm) };
    }
}
