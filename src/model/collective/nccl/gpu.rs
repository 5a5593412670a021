//! GPUs that NCCL can connect.

use std::ffi::c_int;

use tch::Device;

use super::library::NcclLibrary;

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
