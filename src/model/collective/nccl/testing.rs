//! Fake NCCL and CUDA in CPU memory, for tests: ranks are threads, a GPU is a number and a queue of operations.
//!
//! As on a GPU, an operation is executed later, when every rank has enqueued it; until then the stream is not ready.
//! Misuse is an error: calls on a thread that has not set a device, and operations that do not match between ranks.

#![expect(unsafe_code, reason = "NCCL and CUDA are C")]

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard};
use std::time::Duration;

use super::library::{NOT_READY, NcclLibrary, RawComm, RawId, RawStream, SUCCESS, SUM, UniqueId};

const UNHANDLED: c_int = 1;
const SYSTEM: c_int = 2;
const ARGUMENT: c_int = 4;
const USAGE: c_int = 5;
const REMOTE: c_int = 6;
/// Number of polls for which a stream reports that it is not ready, even if all ranks have enqueued the operation. The
/// communicator makes fewer polls before its first pause.
const NOT_READY_POLLS: u32 = 60;

/// Fault of a GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum GpuFault {
    #[default]
    Nothing,
    /// Its communicator cannot be created.
    Init,
    /// Its sums are wrong.
    Sums,
    /// An asynchronous error occurs in operation number `.0`.
    Asynchronous(usize),
    /// The stream fails in operation number `.0`.
    Stream(usize),
    /// Enqueueing an operation blocks forever, from number `.0` on.
    Stuck(usize),
}

/// Table of the fake functions.
pub const FAKE_LIBRARY: NcclLibrary = NcclLibrary {
    get_version,
    get_error_string,
    get_unique_id,
    comm_init_rank,
    comm_get_async_error,
    comm_abort,
    comm_destroy,
    all_gather,
    all_reduce,
    cuda_set_device,
    cuda_stream_query,
    cuda_get_last_error,
    cuda_get_error_string,
    cuda_device_get_pci_bus_id,
};

/// The same functions, with an older version of NCCL.
pub const FAKE_OLD_LIBRARY: NcclLibrary = NcclLibrary { get_version: get_older_version, ..FAKE_LIBRARY };

/// Numbers of `count` GPUs that no other test uses.
pub fn new_gpus(count: i32) -> Vec<c_int> {
    static NEXT: AtomicI32 = AtomicI32::new(0);
    let first = NEXT.fetch_add(count, Ordering::SeqCst);
    (first..first + count).collect()
}

/// Sets the fault of a GPU.
pub fn inject_fault(gpu: c_int, fault: GpuFault) {
    devices().entry(gpu).or_default().fault = fault;
}

/// Calls made for a GPU so far, except polls of its stream.
pub fn calls(gpu: c_int) -> Vec<String> {
    devices().get(&gpu).map(|device| device.calls.clone()).unwrap_or_default()
}

#[derive(Default)]
struct FakeGpu {
    fault: GpuFault,
    calls: Vec<String>,
    /// Pending operations, each as (its ranks, its number, the number of further polls that report "not ready").
    queue: Vec<(Arc<FakeRankGroup>, usize, u32)>,
}

static DEVICES: LazyLock<Mutex<HashMap<c_int, FakeGpu>>> = LazyLock::new(Mutex::default);
static RANK_GROUPS: LazyLock<Mutex<HashMap<UniqueId, Arc<FakeRankGroup>>>> = LazyLock::new(Mutex::default);

thread_local! {
    static DEVICE: Cell<Option<c_int>> = const { Cell::new(None) };
    /// Last error of CUDA.
    static LAST: Cell<c_int> = const { Cell::new(SUCCESS) };
}

fn devices() -> MutexGuard<'static, HashMap<c_int, FakeGpu>> {
    DEVICES.lock().unwrap()
}

/// Ranks of a communicator, and their operations.
#[derive(Default)]
struct FakeRankGroup {
    state: Mutex<FakeGroupState>,
    all_joined: Condvar,
}

#[derive(Default)]
struct FakeGroupState {
    n_joined: c_int,
    collectives: Vec<FakeCollective>,
}

#[derive(Default)]
struct FakeCollective {
    parts: Vec<Option<FakeBuffers>>,
    is_complete: bool,
    /// True if the operations of the ranks do not match.
    wrong: bool,
}

#[derive(Clone, Copy, PartialEq)]
struct FakeBuffers {
    send: usize,
    receive: usize,
    count: usize,
    kind: c_int,
    sum: bool,
    /// True if the sum is to be wrong.
    is_corrupt: bool,
}

/// Target of `ncclComm_t`.
struct FakeComm {
    group: Arc<FakeRankGroup>,
    rank: usize,
    ranks: usize,
    device: c_int,
    /// Number of operations enqueued.
    begun: Cell<usize>,
}

unsafe extern "C" fn get_version(version: *mut c_int) -> c_int {
    // SAFETY: the caller gives a place for the result.
    unsafe { *version = 22_703 };
    SUCCESS
}

unsafe extern "C" fn get_older_version(version: *mut c_int) -> c_int {
    // SAFETY: the caller gives a place for the result.
    unsafe { *version = 21_005 };
    SUCCESS
}

unsafe extern "C" fn get_error_string(result: c_int) -> *const c_char {
    let text: &CStr = match result {
        SYSTEM => c"system error of the test",
        ARGUMENT => c"bad argument",
        USAGE => c"bad usage",
        REMOTE => c"remote error of the test",
        _ => c"another error",
    };
    text.as_ptr()
}

unsafe extern "C" fn get_unique_id(id: *mut RawId) -> c_int {
    static NEXT: AtomicI32 = AtomicI32::new(1);
    let mut bytes = [0xA5; 128];
    bytes[124..].copy_from_slice(&NEXT.fetch_add(1, Ordering::SeqCst).to_le_bytes());
    // SAFETY: the caller gives a place for the result.
    unsafe { *id = RawId(bytes) };
    SUCCESS
}

unsafe extern "C" fn comm_init_rank(comm: *mut RawComm, ranks: c_int, id: RawId, rank: c_int) -> c_int {
    let Some(device) = DEVICE.get() else { return USAGE };
    {
        let mut devices = devices();
        let at = devices.entry(device).or_default();
        at.calls.push(format!("init {rank} of {ranks}"));
        if at.fault == GpuFault::Init {
            // The other ranks notice that the connections of this one close.
            drop(devices);
            let group = Arc::clone(RANK_GROUPS.lock().unwrap().entry(id.0).or_default());
            group.state.lock().unwrap().n_joined = -1000;
            group.all_joined.notify_all();
            return SYSTEM;
        }
    }
    let group = Arc::clone(RANK_GROUPS.lock().unwrap().entry(id.0).or_default());
    let mut state = group.state.lock().unwrap();
    state.n_joined += 1;
    group.all_joined.notify_all();
    let missing = |state: &mut FakeGroupState| (0..ranks).contains(&state.n_joined);
    let (state, late) = group.all_joined.wait_timeout_while(state, Duration::from_secs(20), missing).unwrap();
    if late.timed_out() || state.n_joined != ranks {
        return REMOTE;
    }
    drop(state);
    let [rank, ranks] = [rank, ranks].map(|number| usize::try_from(number).unwrap());
    // SAFETY: the caller gives a place for the result.
    unsafe { *comm = Box::into_raw(Box::new(FakeComm { group, rank, ranks, device, begun: Cell::new(0) })).cast() };
    SUCCESS
}

unsafe extern "C" fn comm_get_async_error(comm: RawComm, result: *mut c_int) -> c_int {
    // SAFETY: `comm` is a communicator of this file that was not ended yet.
    let comm = unsafe { &*comm.cast::<FakeComm>() };
    let trouble = devices()[&comm.device].fault;
    let state = comm.group.state.lock().unwrap();
    let failed = matches!(trouble, GpuFault::Asynchronous(at) if at < comm.begun.get());
    let wrong = state.collectives.iter().any(|collective| collective.wrong);
    // SAFETY: the caller gives a place for the result.
    unsafe {
        *result = if failed {
            REMOTE
        } else if wrong {
            ARGUMENT
        } else {
            SUCCESS
        }
    };
    SUCCESS
}

unsafe extern "C" fn comm_abort(comm: RawComm) -> c_int {
    // SAFETY: `comm` is a communicator of this file that was not ended yet.
    unsafe { end(comm, "abort") }
}

unsafe extern "C" fn comm_destroy(comm: RawComm) -> c_int {
    // SAFETY: `comm` is a communicator of this file that was not ended yet.
    unsafe { end(comm, "destroy") }
}

unsafe fn end(comm: RawComm, how: &str) -> c_int {
    // SAFETY: `comm` is a communicator of this file that was not ended yet.
    let comm = unsafe { Box::from_raw(comm.cast::<FakeComm>()) };
    let mut devices = devices();
    let device = devices.get_mut(&comm.device).unwrap();
    device.calls.push(how.to_owned());
    device.queue.retain(|(world, ..)| !Arc::ptr_eq(world, &comm.group));
    // Its tensors may be freed now, so its pending operations are dropped.
    let mut state = comm.group.state.lock().unwrap();
    for collective in state.collectives.iter_mut().filter(|collective| !collective.is_complete) {
        collective.parts[comm.rank] = None;
    }
    SUCCESS
}

unsafe extern "C" fn all_gather(
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    kind: c_int,
    comm: RawComm,
    stream: RawStream,
) -> c_int {
    let part = FakeBuffers {
        send: send.expose_provenance(),
        receive: receive.expose_provenance(),
        count,
        kind,
        sum: false,
        is_corrupt: false,
    };
    // SAFETY: `comm` is a communicator of this file that was not ended yet.
    begin(part, unsafe { &*comm.cast::<FakeComm>() }, stream, format!("gather {count} of {kind}"))
}

unsafe extern "C" fn all_reduce(
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    kind: c_int,
    operation: c_int,
    comm: RawComm,
    stream: RawStream,
) -> c_int {
    if operation != SUM {
        return ARGUMENT;
    }
    let part = FakeBuffers {
        send: send.expose_provenance(),
        receive: receive.expose_provenance(),
        count,
        kind,
        sum: true,
        is_corrupt: false,
    };
    // SAFETY: `comm` is a communicator of this file that was not ended yet.
    begin(part, unsafe { &*comm.cast::<FakeComm>() }, stream, format!("sum {count} of {kind}"))
}

fn begin(mut part: FakeBuffers, comm: &FakeComm, stream: RawStream, call: String) -> c_int {
    if !stream.is_null() || DEVICE.get() != Some(comm.device) {
        return USAGE;
    }
    let mut devices = devices();
    let device = devices.get_mut(&comm.device).unwrap();
    device.calls.push(call);
    let number = comm.begun.get();
    comm.begun.set(number + 1);
    part.is_corrupt = device.fault == GpuFault::Sums;
    if matches!(device.fault, GpuFault::Stuck(at) if at <= number) {
        drop(devices);
        // Longer than any test.
        std::thread::sleep(Duration::from_hours(1));
        return UNHANDLED;
    }
    let mut state = comm.group.state.lock().unwrap();
    if state.collectives.len() <= number {
        state.collectives.push(FakeCollective { parts: vec![None; comm.ranks], ..FakeCollective::default() });
    }
    state.collectives[number].parts[comm.rank] = Some(part);
    device.queue.push((Arc::clone(&comm.group), number, NOT_READY_POLLS));
    SUCCESS
}

unsafe extern "C" fn cuda_set_device(device: c_int) -> c_int {
    DEVICE.set(Some(device));
    devices().entry(device).or_default();
    SUCCESS
}

unsafe extern "C" fn cuda_stream_query(_stream: RawStream) -> c_int {
    let Some(number) = DEVICE.get() else { return UNHANDLED };
    let mut devices = devices();
    // An error that was not cleared is returned by the next call.
    if LAST.get() != SUCCESS {
        return LAST.get();
    }
    let device = devices.get_mut(&number).unwrap();
    while let Some((world, collective, looks)) = device.queue.first_mut() {
        if matches!(device.fault, GpuFault::Stream(at) if at <= *collective) {
            return 700;
        }
        *looks = looks.saturating_sub(1);
        let mut state = world.state.lock().unwrap();
        let at = &mut state.collectives[*collective];
        if *looks > 0 || !at.done() {
            LAST.set(NOT_READY);
            return NOT_READY;
        }
        drop(state);
        device.queue.remove(0);
    }
    SUCCESS
}

unsafe extern "C" fn cuda_get_last_error() -> c_int {
    LAST.replace(SUCCESS)
}

unsafe extern "C" fn cuda_get_error_string(error: c_int) -> *const c_char {
    if error == 700 { c"illegal address".as_ptr() } else { c"another error".as_ptr() }
}

unsafe extern "C" fn cuda_device_get_pci_bus_id(id: *mut c_char, length: c_int, device: c_int) -> c_int {
    let text = format!("0000:{device:02X}:00.0\0");
    if text.len() > usize::try_from(length).unwrap() {
        return UNHANDLED;
    }
    // SAFETY: the place is longer than the text, as checked above.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), id, text.len()) };
    SUCCESS
}

impl FakeCollective {
    /// Executes the operation if all ranks have enqueued it. Returns true if it is finished.
    fn done(&mut self) -> bool {
        if self.is_complete || self.wrong {
            return self.is_complete;
        }
        let Some(parts) = self.parts.iter().copied().collect::<Option<Vec<FakeBuffers>>>() else { return false };
        let form = |part: &FakeBuffers| (part.count, part.kind, part.sum);
        if parts.iter().any(|part| form(part) != form(&parts[0])) {
            self.wrong = true;
            return false;
        }
        if parts[0].sum {
            match parts[0].kind {
                4 => add_up(&parts, |sum: &mut i64, value| *sum += value),
                7 => add_up(&parts, |sum: &mut f32, value| *sum += value),
                8 => add_up(&parts, |sum: &mut f64, value| *sum += value),
                _ => self.wrong = true,
            }
        } else {
            let size = match parts[0].kind {
                1 => 1,
                6 | 9 => 2,
                7 => 4,
                4 | 8 => 8,
                _ => 0,
            };
            self.wrong = size == 0;
            let bytes: Vec<u8> = parts.iter().flat_map(|part| read::<u8>(part.send, part.count * size)).collect();
            for part in &parts {
                write(part.receive, &bytes);
            }
        }
        self.is_complete = !self.wrong;
        self.is_complete
    }
}

fn add_up<T: Copy>(parts: &[FakeBuffers], add: impl Fn(&mut T, T)) {
    let mut sums = read::<T>(parts[0].send, parts[0].count);
    for part in &parts[1..] {
        sums.iter_mut().zip(read(part.send, part.count)).for_each(|(sum, value)| add(sum, value));
    }
    for part in parts {
        let mut own = sums.clone();
        if part.is_corrupt {
            own.reverse();
            own.truncate(part.count - 1);
        }
        write(part.receive, &own);
    }
}

fn read<T: Copy>(at: usize, count: usize) -> Vec<T> {
    // The thread that enqueued the operation keeps the tensor until the operation is finished.
    // SAFETY: the tensor has `count` values at `at`, and nobody writes to it meanwhile.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(at), count) }.to_vec()
}

fn write<T: Copy>(at: usize, values: &[T]) {
    let to = std::ptr::with_exposed_provenance_mut::<T>(at);
    // SAFETY: the tensor has room for the values, and nobody else uses it meanwhile.
    unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), to, values.len()) };
}
