//! The functions of NCCL and CUDA as far as they are used, on the memory of the processor: ranks are threads, a GPU is a
//! number and a queue of work. For tests.
//!
//! As on a GPU, work that is queued is done later, when every rank has queued its part; meanwhile the stream is not
//! ready. Misuse is an error: calls on a thread that has chosen no device, parts of a collective that do not fit together.

#![expect(unsafe_code, reason = "what NCCL and CUDA are is C")]

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard};
use std::time::Duration;

use super::library::{Library, NOT_READY, RawComm, RawId, RawStream, SUCCESS, SUM, UniqueId};

const UNHANDLED: c_int = 1;
const SYSTEM: c_int = 2;
const ARGUMENT: c_int = 4;
const USAGE: c_int = 5;
const REMOTE: c_int = 6;
/// Looks at a stream that find it not ready, however fast the others are: more than are made without a pause.
const LOOKS: u32 = 60;

/// What goes wrong at a GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Trouble {
    #[default]
    Nothing,
    /// Its communicator cannot be opened.
    Init,
    /// Its sums are wrong.
    Sums,
    /// An error is found while collective number `.0` is under way.
    Asynchronous(usize),
    /// The stream fails in collective number `.0`.
    Stream(usize),
    /// Putting a collective on the stream never comes back, from number `.0` on.
    Stuck(usize),
}

/// The table of these functions.
pub const LIBRARY: Library = Library {
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

/// The same, as an older version.
pub const OLDER: Library = Library { get_version: get_older_version, ..LIBRARY };

/// Numbers of `count` GPUs that no other test has.
pub fn gpus(count: i32) -> Vec<c_int> {
    static NEXT: AtomicI32 = AtomicI32::new(0);
    let first = NEXT.fetch_add(count, Ordering::SeqCst);
    (first..first + count).collect()
}

/// Has something go wrong at a GPU.
pub fn trouble(gpu: c_int, trouble: Trouble) {
    devices().entry(gpu).or_default().trouble = trouble;
}

/// The calls made at a GPU so far, but for questions.
pub fn calls(gpu: c_int) -> Vec<String> {
    devices().get(&gpu).map(|device| device.calls.clone()).unwrap_or_default()
}

#[derive(Default)]
struct OneDevice {
    trouble: Trouble,
    calls: Vec<String>,
    /// Parts of collectives that are not over: the number of each, and the looks that will still find it not ready.
    queue: Vec<(Arc<World>, usize, u32)>,
}

static DEVICES: LazyLock<Mutex<HashMap<c_int, OneDevice>>> = LazyLock::new(Mutex::default);
static WORLDS: LazyLock<Mutex<HashMap<UniqueId, Arc<World>>>> = LazyLock::new(Mutex::default);

thread_local! {
    static DEVICE: Cell<Option<c_int>> = const { Cell::new(None) };
    /// The last error of CUDA.
    static LAST: Cell<c_int> = const { Cell::new(SUCCESS) };
}

fn devices() -> MutexGuard<'static, HashMap<c_int, OneDevice>> {
    DEVICES.lock().unwrap()
}

/// The ranks that met under an id, and their collectives.
#[derive(Default)]
struct World {
    state: Mutex<State>,
    all_here: Condvar,
}

#[derive(Default)]
struct State {
    here: c_int,
    collectives: Vec<Collective>,
}

#[derive(Default)]
struct Collective {
    parts: Vec<Option<Part>>,
    over: bool,
    /// They do not fit together.
    wrong: bool,
}

#[derive(Clone, Copy, PartialEq)]
struct Part {
    send: usize,
    receive: usize,
    count: usize,
    kind: c_int,
    sum: bool,
    /// Sums are wrong.
    off: bool,
}

/// What `ncclComm_t` points to.
struct Comm {
    world: Arc<World>,
    rank: usize,
    ranks: usize,
    device: c_int,
    /// Collectives begun.
    begun: Cell<usize>,
}

unsafe extern "C" fn get_version(version: *mut c_int) -> c_int {
    unsafe { *version = 22_703 };
    SUCCESS
}

unsafe extern "C" fn get_older_version(version: *mut c_int) -> c_int {
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
    unsafe { *id = RawId(bytes) };
    SUCCESS
}

unsafe extern "C" fn comm_init_rank(comm: *mut RawComm, ranks: c_int, id: RawId, rank: c_int) -> c_int {
    let Some(device) = DEVICE.get() else { return USAGE };
    {
        let mut devices = devices();
        let at = devices.entry(device).or_default();
        at.calls.push(format!("init {rank} of {ranks}"));
        if at.trouble == Trouble::Init {
            // The others see that this one's connections close.
            drop(devices);
            let world = Arc::clone(WORLDS.lock().unwrap().entry(id.0).or_default());
            world.state.lock().unwrap().here = -1000;
            world.all_here.notify_all();
            return SYSTEM;
        }
    }
    let world = Arc::clone(WORLDS.lock().unwrap().entry(id.0).or_default());
    let mut state = world.state.lock().unwrap();
    state.here += 1;
    world.all_here.notify_all();
    let missing = |state: &mut State| (0..ranks).contains(&state.here);
    let (state, late) = world.all_here.wait_timeout_while(state, Duration::from_secs(20), missing).unwrap();
    if late.timed_out() || state.here != ranks {
        return REMOTE;
    }
    drop(state);
    let [rank, ranks] = [rank, ranks].map(|number| usize::try_from(number).unwrap());
    unsafe { *comm = Box::into_raw(Box::new(Comm { world, rank, ranks, device, begun: Cell::new(0) })).cast() };
    SUCCESS
}

unsafe extern "C" fn comm_get_async_error(comm: RawComm, result: *mut c_int) -> c_int {
    let comm = unsafe { &*comm.cast::<Comm>() };
    let trouble = devices()[&comm.device].trouble;
    let state = comm.world.state.lock().unwrap();
    let failed = matches!(trouble, Trouble::Asynchronous(at) if at < comm.begun.get());
    let wrong = state.collectives.iter().any(|collective| collective.wrong);
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
    unsafe { end(comm, "abort") }
}

unsafe extern "C" fn comm_destroy(comm: RawComm) -> c_int {
    unsafe { end(comm, "destroy") }
}

unsafe fn end(comm: RawComm, how: &str) -> c_int {
    let comm = unsafe { Box::from_raw(comm.cast::<Comm>()) };
    let mut devices = devices();
    let device = devices.get_mut(&comm.device).unwrap();
    device.calls.push(how.to_owned());
    device.queue.retain(|(world, ..)| !Arc::ptr_eq(world, &comm.world));
    // Its tensors are let go: nobody may touch them any more.
    let mut state = comm.world.state.lock().unwrap();
    for collective in state.collectives.iter_mut().filter(|collective| !collective.over) {
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
    let part = Part {
        send: send.expose_provenance(),
        receive: receive.expose_provenance(),
        count,
        kind,
        sum: false,
        off: false,
    };
    begin(part, unsafe { &*comm.cast::<Comm>() }, stream, format!("gather {count} of {kind}"))
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
    let part = Part {
        send: send.expose_provenance(),
        receive: receive.expose_provenance(),
        count,
        kind,
        sum: true,
        off: false,
    };
    begin(part, unsafe { &*comm.cast::<Comm>() }, stream, format!("sum {count} of {kind}"))
}

fn begin(mut part: Part, comm: &Comm, stream: RawStream, call: String) -> c_int {
    if !stream.is_null() || DEVICE.get() != Some(comm.device) {
        return USAGE;
    }
    let mut devices = devices();
    let device = devices.get_mut(&comm.device).unwrap();
    device.calls.push(call);
    let number = comm.begun.get();
    comm.begun.set(number + 1);
    part.off = device.trouble == Trouble::Sums;
    if matches!(device.trouble, Trouble::Stuck(at) if at <= number) {
        drop(devices);
        // Longer than any test: NCCL does not come back.
        std::thread::sleep(Duration::from_hours(1));
        return UNHANDLED;
    }
    let mut state = comm.world.state.lock().unwrap();
    if state.collectives.len() <= number {
        state.collectives.push(Collective { parts: vec![None; comm.ranks], ..Collective::default() });
    }
    state.collectives[number].parts[comm.rank] = Some(part);
    device.queue.push((Arc::clone(&comm.world), number, LOOKS));
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
    // Whoever begins a call with an error left behind takes it for his.
    if LAST.get() != SUCCESS {
        return LAST.get();
    }
    let device = devices.get_mut(&number).unwrap();
    while let Some((world, collective, looks)) = device.queue.first_mut() {
        if matches!(device.trouble, Trouble::Stream(at) if at <= *collective) {
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
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), id, text.len()) };
    SUCCESS
}

impl Collective {
    /// Does it if all parts are there; whether it is done.
    fn done(&mut self) -> bool {
        if self.over || self.wrong {
            return self.over;
        }
        let Some(parts) = self.parts.iter().copied().collect::<Option<Vec<Part>>>() else { return false };
        let form = |part: &Part| (part.count, part.kind, part.sum);
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
        self.over = !self.wrong;
        self.over
    }
}

fn add_up<T: Copy>(parts: &[Part], add: impl Fn(&mut T, T)) {
    let mut sums = read::<T>(parts[0].send, parts[0].count);
    for part in &parts[1..] {
        sums.iter_mut().zip(read(part.send, part.count)).for_each(|(sum, value)| add(sum, value));
    }
    for part in parts {
        let mut own = sums.clone();
        if part.off {
            own.reverse();
            own.truncate(part.count - 1);
        }
        write(part.receive, &own);
    }
}

fn read<T: Copy>(at: usize, count: usize) -> Vec<T> {
    // The tensor is kept by the thread that began the collective until it is over.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(at), count) }.to_vec()
}

fn write<T: Copy>(at: usize, values: &[T]) {
    let to = std::ptr::with_exposed_provenance_mut::<T>(at);
    unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), to, values.len()) };
}
