//! GPUs that NCCL can connect.

use std::ffi::c_int;

use tch::Device;

use super::library::Library;

/// A GPU, and the functions that reach it.
#[derive(Debug, Clone, Copy)]
pub struct Gpu {
    pub library: Library,
    /// CUDA's number of it.
    pub number: c_int,
    /// Where libtorch has the tensors that it works on.
    pub device: Device,
}

impl Gpu {
    /// That of a rank which computes on `device`; or why NCCL cannot serve it.
    pub fn of(device: Device) -> Result<Self, String> {
        let Device::Cuda(number) = device else { return Err("it computes on the processor".to_owned()) };
        let number = c_int::try_from(number).map_err(|error| error.to_string())?;
        Ok(Self { library: Library::load()?, number, device })
    }
}
