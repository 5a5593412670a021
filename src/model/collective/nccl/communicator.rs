//! A rank's place among connected GPUs, kept by a thread of its own, which makes all calls.

#![expect(unsafe_code, reason = "NCCL and CUDA are C")]

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use tch::{Device, Tensor};

use super::gpu::Gpu;
use super::library::{
    DEFAULT_STREAM, IN_PROGRESS, Library, NOT_READY, RawComm, RawId, SUCCESS, SUM, UniqueId, data_type,
};
use crate::error::{Error, Kind, Result};
use crate::runtime::Cancel;

/// Time between two questions whether to go on.
const LOOK: Duration = Duration::from_millis(20);
/// How long the end of a call that is given up is waited for, and that of a communicator.
const GRACE: Duration = Duration::from_secs(2);
/// Looks at a stream without a pause, which takes some 50 µs; most calls are over by then.
const SPINS: u32 = 50;
/// The longest pause between two looks at a stream.
const NAP: Duration = Duration::from_micros(500);

/// One rank of several, each with a GPU of its own. All ranks make the same calls in the same order.
///
/// After an error all further calls fail.
pub struct Communicator {
    device: Device,
    jobs: Option<SyncSender<Job>>,
    /// Raised to have the thread give up what it waits for.
    stop: Arc<AtomicBool>,
    /// Says nothing, and is closed when the thread ends.
    ended: Receiver<()>,
    patience: Duration,
    cancel: Cancel,
}

impl Communicator {
    /// Connects rank `place.0` of `place.1`, which all know the same `id`; or says why NCCL cannot, such as that not all came
    /// while `patience` lasted.
    ///
    /// # Errors
    /// `cancel` is raised.
    pub fn connect(
        gpu: Gpu,
        id: UniqueId,
        place: (usize, usize),
        patience: Duration,
        cancel: &Cancel,
    ) -> Result<Result<Self, String>> {
        let (Ok(rank), Ok(ranks)) = (c_int::try_from(place.0), c_int::try_from(place.1)) else {
            return Ok(Err(format!("{} ranks, wanted fewer", place.1)));
        };
        let (stop, (jobs, to_do), (say_end, ended)) =
            (Arc::<AtomicBool>::default(), sync_channel::<Job>(1), sync_channel(0));
        let (say, said) = sync_channel(1);
        let stopped = Arc::clone(&stop);
        let work = move || {
            let _say_end: SyncSender<()> = say_end;
            let connection = Connection::open(gpu, id, rank, ranks, stopped);
            let (connection, told) = match connection {
                Ok(connection) => (Some(connection), Ok(())),
                Err(why) => (None, Err(why)),
            };
            if say.send(told).is_ok()
                && let Some(connection) = connection
            {
                connection.serve(&to_do);
            }
        };
        let thread = std::thread::Builder::new().name("nccl".to_owned()).spawn(work);
        thread.map_err(|error| Error::internal(format!("no thread: {error}")))?;
        let this = Self { device: gpu.device, jobs: Some(jobs), stop, ended, patience, cancel: cancel.clone() };
        Ok(told(this.answer(&said))?.and_then(|opened| opened).map(|()| this))
    }

    /// The same, with another patience from now on.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Ends it without taking leave of the other ranks, once it is dropped.
    pub fn abandon(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Where libtorch has the tensors that this takes.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Whether this takes such a tensor.
    pub fn takes(&self, tensor: &Tensor) -> bool {
        tensor.device() == self.device && data_type(tensor.kind()).is_some()
    }

    /// Fills `all` with the `own` of all ranks in their order; `own` has as many values on each.
    ///
    /// # Errors
    /// A rank is gone or silent, or the run was cancelled.
    pub fn all_gather(&self, own: &Tensor, all: &Tensor) -> Result<()> {
        self.work(vec![Call::Gather { own: own.shallow_clone(), all: all.shallow_clone() }])
    }

    /// Replaces each of `flats`, in place, by its sum over all ranks. NCCL adds up every value in one place and hands the
    /// result around unchanged, so it has the same bits on all ranks: <https://github.com/NVIDIA/nccl/issues/855>.
    ///
    /// # Errors
    /// As [`Communicator::all_gather`].
    pub fn sum(&self, flats: &[Tensor]) -> Result<()> {
        self.work(flats.iter().map(|flat| Call::Sum(flat.shallow_clone())).collect())
    }

    fn work(&self, calls: Vec<Call>) -> Result<()> {
        let (done, said) = sync_channel(1);
        let jobs = self.jobs.as_ref().filter(|_| !self.stop.load(Ordering::SeqCst)).ok_or_else(gone)?;
        jobs.send(Job { calls, done }).map_err(|_| gone())?;
        self.answer(&said)?.map_err(Error::peer)
    }

    /// Waits for an answer of the thread, as long as it may take.
    fn answer<T>(&self, said: &Receiver<T>) -> Result<T> {
        let mut waited = Duration::ZERO;
        loop {
            match said.recv_timeout(LOOK) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
                Err(RecvTimeoutError::Timeout) => waited += LOOK,
            }
            let silent = || Error::peer(format!("NCCL has waited {} s for another rank", self.patience.as_secs()));
            let late = if waited >= self.patience { Err(silent()) } else { Ok(()) };
            if let Err(error) = self.cancel.proceed().and(late) {
                self.abandon();
                // Where NCCL itself does not come back, the thread stays behind with its tensors: the process ends soon.
                let _ = said.recv_timeout(GRACE);
                return Err(error);
            }
        }
    }
}

fn gone() -> Error {
    Error::peer("NCCL is not connected any more")
}

/// An error as the reason not to use NCCL, but for one that ends the run.
pub fn told<T>(result: Result<T>) -> Result<Result<T, String>> {
    match result {
        Err(error) if error.kind() == Kind::Interrupted => Err(error),
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
        self.jobs = None;
        // Ranks of one machine take leave of each other: that ends when all do, and never if one is gone.
        let _ = self.ended.recv_timeout(GRACE);
    }
}

/// A collective, with the tensors that it reads and writes: they must stay until it is over.
enum Call {
    Gather { own: Tensor, all: Tensor },
    Sum(Tensor),
}

/// Collectives that are waited for together.
struct Job {
    calls: Vec<Call>,
    done: SyncSender<Result<(), String>>,
}

/// The communicator itself. It stays on the thread that made it.
struct Connection {
    library: Library,
    comm: RawComm,
    stop: Arc<AtomicBool>,
    broken: bool,
}

impl Connection {
    /// Waits for all ranks.
    fn open(gpu: Gpu, id: UniqueId, rank: c_int, ranks: c_int, stop: Arc<AtomicBool>) -> Result<Self, String> {
        let library = gpu.library;
        // For all calls of this thread.
        // SAFETY: it takes any number.
        library.cuda("cudaSetDevice", unsafe { (library.cuda_set_device)(gpu.number) })?;
        let mut comm = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call.
        let result = unsafe { (library.comm_init_rank)(&raw mut comm, ranks, RawId(id), rank) };
        library.nccl("ncclCommInitRank", result)?;
        Ok(Self { library, comm, stop, broken: false })
    }

    /// Works until there is nothing more to do, or an error.
    fn serve(mut self, jobs: &Receiver<Job>) {
        while let Ok(Job { calls, done }) = jobs.recv() {
            let result = calls.iter().try_for_each(|call| self.begin(call)).and_then(|()| self.wait());
            self.broken = result.is_err();
            if self.broken {
                // Ends what is under way, so that the tensors can be let go.
                drop(self);
                drop(calls);
                let _ = done.send(result);
                return;
            }
            drop(calls);
            let _ = done.send(result);
        }
    }

    /// Puts a collective on the stream.
    fn begin(&self, call: &Call) -> Result<(), String> {
        let kind = |tensor: &Tensor| {
            data_type(tensor.kind()).ok_or_else(|| format!("NCCL has no type for {:?}", tensor.kind()))
        };
        let Self { library, comm, .. } = self;
        match call {
            Call::Gather { own, all } => {
                let (from, to, kind) = (own.data_ptr(), all.data_ptr(), kind(own)?);
                // SAFETY: the tensors are contiguous, `all` is as many times as long as there are ranks, and both outlive
                // the call.
                let result = unsafe { (library.all_gather)(from, to, own.numel(), kind, *comm, DEFAULT_STREAM) };
                library.nccl("ncclAllGather", result)
            }
            Call::Sum(flat) => {
                let (at, kind) = (flat.data_ptr(), kind(flat)?);
                // SAFETY: the tensor is contiguous and outlives the call, which may work in place.
                let result = unsafe { (library.all_reduce)(at, at, flat.numel(), kind, SUM, *comm, DEFAULT_STREAM) };
                library.nccl("ncclAllReduce", result)
            }
        }
    }

    /// Comes back when all that is on the stream is over.
    fn wait(&self) -> Result<(), String> {
        let Self { library, comm, .. } = self;
        let (mut looks, mut nap) = (0, Duration::from_micros(20));
        loop {
            let mut state = SUCCESS;
            // SAFETY: the communicator is open, and the pointer valid for the call.
            let result = unsafe { (library.comm_get_async_error)(*comm, &raw mut state) };
            library.nccl("ncclCommGetAsyncError", result)?;
            if state != IN_PROGRESS {
                library.nccl("a collective", state)?;
            }
            // SAFETY: this stream is always there.
            let result = unsafe { (library.cuda_stream_query)(DEFAULT_STREAM) };
            if result != NOT_READY {
                return library.cuda("cudaStreamQuery", result);
            }
            // "Not ready" is kept as an error, which the next one who asks for errors would take for his.
            // SAFETY: it takes nothing.
            unsafe { (library.cuda_get_last_error)() };
            if self.stop.load(Ordering::SeqCst) {
                return Err("given up".to_owned());
            }
            looks += 1;
            if looks <= SPINS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(nap);
                nap = NAP.min(nap * 2);
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let broken = self.broken || self.stop.load(Ordering::SeqCst);
        let end = if broken { self.library.comm_abort } else { self.library.comm_destroy };
        // Nothing can be done about an error any more.
        // SAFETY: the communicator is open, and used no more.
        unsafe { end(self.comm) };
    }
}
