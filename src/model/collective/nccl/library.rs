//! Table of the functions of NCCL and of the CUDA runtime that are used here: from `nccl.h` of NCCL 2 and
//! `cuda_runtime_api.h` of CUDA 12 and 13.

#![expect(unsafe_code, reason = "NCCL and CUDA are C")]

use std::ffi::{CStr, c_char, c_int, c_void};

use libloading::os::unix;
use tch::{Device, Kind};

/// `ncclUniqueId`: identifier that all ranks of a communicator share.
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
/// Legacy default stream, on which libtorch computes.
pub const DEFAULT_STREAM: RawStream = std::ptr::null_mut();

/// Oldest supported version, 2.10: the first with bf16, the newest of the types used here.
const MIN_VERSION: c_int = 21_000;

/// Table of functions. The requirements of each call are in its C documentation.
#[derive(Debug, Clone, Copy)]
pub struct NcclLibrary {
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

/// Looks up a function by name.
macro_rules! function {
    ($place:ident, $name:literal) => {
        // SAFETY: the type is that of the field, which is that of the header.
        unsafe { $place.function($name) }?
    };
}

impl NcclLibrary {
    /// Looks up the functions, first in the libraries that are loaded already (libtorch contains NCCL or links it),
    /// then in libraries with the usual names. The error names the missing function.
    pub fn load() -> Result<Self, String> {
        let nccl = SymbolLookup::new(&["libnccl.so.2"]);
        let cuda = SymbolLookup::new(&["libcudart.so.13", "libcudart.so.12"]);
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

    /// Version of NCCL, such as 22703 for 2.27.3.
    pub fn version(&self) -> Result<c_int, String> {
        let mut version = 0;
        // SAFETY: the pointer is valid for the call.
        self.nccl("ncclGetVersion", unsafe { (self.get_version)(&raw mut version) })?;
        if version < MIN_VERSION {
            Err(format!("NCCL is of version {version}, expected {MIN_VERSION} or newer"))
        } else {
            Ok(version)
        }
    }

    /// Creates an id for a new communicator.
    pub fn unique_id(&self) -> Result<UniqueId, String> {
        let mut id = RawId([0; 128]);
        // SAFETY: as above.
        self.nccl("ncclGetUniqueId", unsafe { (self.get_unique_id)(&raw mut id) })?;
        Ok(id.0)
    }

    /// PCI bus id of GPU `device`.
    pub fn bus_id(&self, device: c_int) -> Result<String, String> {
        // `0000:3b:00.0` and the zero byte take 13; domains of more digits exist.
        let mut text = [0; 32];
        // SAFETY: the buffer has the given length.
        let result = unsafe { (self.cuda_device_get_pci_bus_id)(text.as_mut_ptr().cast(), 32, device) };
        self.cuda("cudaDeviceGetPCIBusId", result)?;
        let text = CStr::from_bytes_until_nul(&text).map_err(|error| error.to_string())?;
        Ok(text.to_string_lossy().to_ascii_lowercase())
    }

    /// Checks the result of an NCCL function. The error is its description.
    pub fn nccl(&self, function: &str, result: c_int) -> Result<(), String> {
        // SAFETY: any number is a valid argument.
        check_status(function, result, || unsafe { (self.get_error_string)(result) })
    }

    /// Checks the result of a function of the CUDA runtime. The error is its description.
    pub fn cuda(&self, function: &str, result: c_int) -> Result<(), String> {
        // SAFETY: any number is a valid argument.
        check_status(function, result, || unsafe { (self.cuda_get_error_string)(result) })
    }
}

fn check_status(function: &str, result: c_int, text: impl FnOnce() -> *const c_char) -> Result<(), String> {
    if result == SUCCESS {
        return Ok(());
    }
    let text = text();
    // SAFETY: the texts of both libraries are null-terminated and static.
    let text = if text.is_null() { "".into() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy() };
    Err(format!("{function}: {} ({result})", pairloom_base::error::escape_control(&text)))
}

/// `ncclDataType_t` of a libtorch type, for the types that gradients and rows may have.
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

/// Libraries in which functions are looked up.
struct SymbolLookup {
    loaded: unix::Library,
    names: &'static [&'static str],
    named: Option<unix::Library>,
}

impl SymbolLookup {
    fn new(names: &'static [&'static str]) -> Self {
        // SAFETY: the initialisation of these libraries has no requirements.
        let named = names.iter().find_map(|name| unsafe { unix::Library::new(*name) }.ok());
        Self { loaded: unix::Library::this(), names, named }
    }

    /// Looks up the function `name`. Its library stays loaded until the process ends.
    ///
    /// # Safety
    /// `F` must be the type of a pointer to that function.
    unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, String> {
        for library in [Some(&self.loaded), self.named.as_ref()].into_iter().flatten() {
            // SAFETY: the caller guarantees the type.
            if let Ok(function) = unsafe { library.get::<F>(name) } {
                return Ok(*function);
            }
        }
        Err(format!("there is no `{name}` in libtorch, nor in {}", self.names.join(" or ")))
    }
}

impl Drop for SymbolLookup {
    fn drop(&mut self) {
        if let Some(named) = self.named.take() {
            let _ = named.into_raw();
        }
    }
}

/// A GPU, and the functions to use it.
#[derive(Debug, Clone, Copy)]
pub struct Gpu {
    pub library: NcclLibrary,
    /// CUDA device number.
    pub number: c_int,
    /// Device in libtorch of the tensors on this GPU.
    pub device: Device,
}

impl Gpu {
    /// GPU of a rank that computes on `device`, or the reason why NCCL cannot be used.
    pub fn of(device: Device) -> Result<Self, String> {
        let Device::Cuda(number) = device else { return Err("it computes on the CPU".to_owned()) };
        let number = c_int::try_from(number).map_err(|error| error.to_string())?;
        Ok(Self { library: NcclLibrary::load()?, number, device })
    }
}
