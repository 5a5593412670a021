//! The functions of NCCL and of the CUDA runtime that are used here, as a table: `nccl.h` of NCCL 2 and
//! `cuda_runtime_api.h` of CUDA 12 and 13.

#![expect(unsafe_code, reason = "NCCL and CUDA are C")]

use std::ffi::{CStr, c_char, c_int, c_void};

use libloading::os::unix;
use tch::Kind;

/// `ncclUniqueId`: what ranks that want to meet must know.
pub type UniqueId = [u8; 128];

/// `ncclUniqueId`, which C passes by value.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RawId(pub UniqueId);

/// `ncclComm_t`.
pub type RawComm = *mut c_void;
/// `cudaStream_t`.
pub type RawStream = *mut c_void;

/// `ncclSuccess`, and `cudaSuccess`.
pub const SUCCESS: c_int = 0;
/// `ncclInProgress`.
pub const IN_PROGRESS: c_int = 7;
/// `ncclSum`.
pub const SUM: c_int = 0;
/// `cudaErrorNotReady`.
pub const NOT_READY: c_int = 600;
/// The legacy default stream, on which libtorch computes.
pub const DEFAULT_STREAM: RawStream = std::ptr::null_mut();

/// The version that has all types of ours, bf16 the last of them: 2.10.
const OLDEST: c_int = 21_000;

/// The functions. Each is to be called as its C documentation says.
#[derive(Debug, Clone, Copy)]
pub struct Library {
    pub get_version: unsafe extern "C" fn(version: *mut c_int) -> c_int,
    pub get_error_string: unsafe extern "C" fn(result: c_int) -> *const c_char,
    pub get_unique_id: unsafe extern "C" fn(id: *mut RawId) -> c_int,
    pub comm_init_rank: unsafe extern "C" fn(comm: *mut RawComm, ranks: c_int, id: RawId, rank: c_int) -> c_int,
    pub comm_get_async_error: unsafe extern "C" fn(comm: RawComm, result: *mut c_int) -> c_int,
    pub comm_abort: unsafe extern "C" fn(comm: RawComm) -> c_int,
    pub comm_destroy: unsafe extern "C" fn(comm: RawComm) -> c_int,
    pub all_gather: unsafe extern "C" fn(
        send: *const c_void,
        receive: *mut c_void,
        count: usize,
        kind: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> c_int,
    pub all_reduce: unsafe extern "C" fn(
        send: *const c_void,
        receive: *mut c_void,
        count: usize,
        kind: c_int,
        operation: c_int,
        comm: RawComm,
        stream: RawStream,
    ) -> c_int,
    pub cuda_set_device: unsafe extern "C" fn(device: c_int) -> c_int,
    pub cuda_stream_query: unsafe extern "C" fn(stream: RawStream) -> c_int,
    pub cuda_get_last_error: unsafe extern "C" fn() -> c_int,
    pub cuda_get_error_string: unsafe extern "C" fn(error: c_int) -> *const c_char,
    pub cuda_device_get_pci_bus_id: unsafe extern "C" fn(id: *mut c_char, length: c_int, device: c_int) -> c_int,
}

/// A function of a place, by its name.
macro_rules! function {
    ($place:ident, $name:literal) => {
        // SAFETY: the type is that of the field, which is that of the header.
        unsafe { $place.function($name) }?
    };
}

impl Library {
    /// Looks the functions up: first in what libtorch has loaded, be it with NCCL inside or beside it, then in libraries
    /// of the usual names. Says what is missing otherwise.
    pub fn load() -> Result<Self, String> {
        let nccl = Place::new(&["libnccl.so.2"]);
        let cuda = Place::new(&["libcudart.so.13", "libcudart.so.12"]);
        Ok(Self {
            get_version: function!(nccl, "ncclGetVersion"),
            get_error_string: function!(nccl, "ncclGetErrorString"),
            get_unique_id: function!(nccl, "ncclGetUniqueId"),
            comm_init_rank: function!(nccl, "ncclCommInitRank"),
            comm_get_async_error: function!(nccl, "ncclCommGetAsyncError"),
            comm_abort: function!(nccl, "ncclCommAbort"),
            comm_destroy: function!(nccl, "ncclCommDestroy"),
            all_gather: function!(nccl, "ncclAllGather"),
            all_reduce: function!(nccl, "ncclAllReduce"),
            cuda_set_device: function!(cuda, "cudaSetDevice"),
            cuda_stream_query: function!(cuda, "cudaStreamQuery"),
            cuda_get_last_error: function!(cuda, "cudaGetLastError"),
            cuda_get_error_string: function!(cuda, "cudaGetErrorString"),
            cuda_device_get_pci_bus_id: function!(cuda, "cudaDeviceGetPCIBusId"),
        })
    }

    /// NCCL's version, such as 22703 for 2.27.3.
    pub fn version(&self) -> Result<c_int, String> {
        let mut version = 0;
        // SAFETY: the pointer is valid for the call.
        self.nccl("ncclGetVersion", unsafe { (self.get_version)(&raw mut version) })?;
        if version < OLDEST {
            Err(format!("NCCL is of version {version}, wanted {OLDEST} or newer"))
        } else {
            Ok(version)
        }
    }

    /// A new id for ranks to meet under.
    pub fn unique_id(&self) -> Result<UniqueId, String> {
        let mut id = RawId([0; 128]);
        // SAFETY: as above.
        self.nccl("ncclGetUniqueId", unsafe { (self.get_unique_id)(&raw mut id) })?;
        Ok(id.0)
    }

    /// Where GPU `device` is on the bus of its machine.
    pub fn bus_id(&self, device: c_int) -> Result<String, String> {
        // `0000:3b:00.0` and the zero byte take 13; domains of more digits exist.
        let mut text = [0; 32];
        // SAFETY: the text is as long as it says.
        let result = unsafe { (self.cuda_device_get_pci_bus_id)(text.as_mut_ptr().cast(), 32, device) };
        self.cuda("cudaDeviceGetPCIBusId", result)?;
        let text = CStr::from_bytes_until_nul(&text).map_err(|error| error.to_string())?;
        Ok(text.to_string_lossy().to_ascii_lowercase())
    }

    /// A result of an NCCL function, in words if it is an error.
    pub fn nccl(&self, function: &str, result: c_int) -> Result<(), String> {
        // SAFETY: it takes any number.
        in_words(function, result, || unsafe { (self.get_error_string)(result) })
    }

    /// A result of a function of the CUDA runtime, in words if it is an error.
    pub fn cuda(&self, function: &str, result: c_int) -> Result<(), String> {
        // SAFETY: it takes any number.
        in_words(function, result, || unsafe { (self.cuda_get_error_string)(result) })
    }
}

fn in_words(function: &str, result: c_int, text: impl FnOnce() -> *const c_char) -> Result<(), String> {
    if result == SUCCESS {
        return Ok(());
    }
    let text = text();
    // SAFETY: a text of theirs ends with a zero byte and stays.
    let text = if text.is_null() { "".into() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy() };
    Err(format!("{function}: {} ({result})", crate::error::visible(&text)))
}

/// `ncclDataType_t` of a type of libtorch's, if gradients or rows may be of it.
pub fn data_type(kind: Kind) -> Option<c_int> {
    Some(match kind {
        Kind::Uint8 => 1,
        Kind::Int64 => 4,
        Kind::Half => 6,
        Kind::Float => 7,
        Kind::Double => 8,
        Kind::BFloat16 => 9,
        _ => return None,
    })
}

/// Where functions are looked for.
struct Place {
    loaded: unix::Library,
    names: &'static [&'static str],
    named: Option<unix::Library>,
}

impl Place {
    fn new(names: &'static [&'static str]) -> Self {
        // SAFETY: their initialisation asks nothing of the program.
        let named = names.iter().find_map(|name| unsafe { unix::Library::new(*name) }.ok());
        Self { loaded: unix::Library::this(), names, named }
    }

    /// The function `name`. Its library stays loaded for good.
    ///
    /// # Safety
    /// `F` is the type of a pointer to that function.
    unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, String> {
        for library in [Some(&self.loaded), self.named.as_ref()].into_iter().flatten() {
            // SAFETY: the caller knows the type.
            if let Ok(function) = unsafe { library.get::<F>(name) } {
                return Ok(*function);
            }
        }
        Err(format!("there is no `{name}` in libtorch, nor in {}", self.names.join(" or ")))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(named) = self.named.take() {
            let _ = named.into_raw();
        }
    }
}
