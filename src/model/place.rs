//! Where tensors live and how many threads work on them.

use tch::{Cuda, Device};

use crate::error::{Error, Result};

/// The processor, or the GPU of a number.
///
/// # Errors
/// No such GPU.
pub fn place(gpu: Option<usize>) -> Result<Device> {
    match gpu {
        None => Ok(Device::Cpu),
        Some(gpu) if i64::try_from(gpu).is_ok_and(|gpu| gpu < Cuda::device_count()) => Ok(Device::Cuda(gpu)),
        Some(gpu) => Err(Error::usage(format!("no GPU {gpu}: libtorch sees {}", Cuda::device_count()))
            .hint("leave `--device` out to compute on the processor")),
    }
}

/// Lets libtorch use `threads` threads for what this thread asks of it. Results repeat to the bit only with the same number.
pub fn use_threads(threads: usize) {
    tch::set_num_threads(i32::try_from(threads.max(1)).unwrap_or(i32::MAX));
}
