//! NCCL communicator of a rank. A separate thread makes all calls of NCCL.

#![expect(unsafe_code, reason = "NCCL and CUDA are C")]

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use tch::{Device, Tensor};

use super::gpu::Gpu;
use super::library::{
    DEFAULT_STREAM, IN_PROGRESS, NOT_READY, NcclLibrary, RawComm, RawId, SUCCESS, SUM, UniqueId, data_type,
};
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_base::runtime::CancelToken;

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
pub struct Communicator {
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
            return Ok(Err(format!("{world_size} ranks, wanted fewer")));
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
    ///
    /// # Errors
    /// Same as [`Communicator::all_gather`].
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
