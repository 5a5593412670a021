//! Where tensors live: from the run's device to libtorch's.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Once;

use crate::error::{Error, Result};
use crate::stage::Device;

/// The device of libtorch, after checking that it is there.
///
/// We link the processor's half of libtorch. Its CUDA half is loaded at the first wish for a GPU, from where the dynamic
/// loader looks (`LD_LIBRARY_PATH`); so one binary serves machines with and without.
///
/// # Errors
/// No CUDA half, no driver, or fewer GPUs than asked for.
pub fn to_tch(device: Device) -> Result<tch::Device> {
    of_rank(device, 0)
}

/// The device of libtorch for the rank of number `local` on its machine, which takes the GPU `local` after the one that was
/// asked for. Where there are fewer GPUs than ranks, they share.
///
/// # Errors
/// As [`to_tch`].
pub fn of_rank(device: Device, local: usize) -> Result<tch::Device> {
    let Device::Cuda(number) = device else { return Ok(tch::Device::Cpu) };
    load_cuda();
    let count = usize::try_from(tch::Cuda::device_count()).unwrap_or(0);
    if number < count {
        return Ok(tch::Device::Cuda((number + local) % count));
    }
    if count == 0 {
        return Err(Error::usage(format!("device `cuda:{number}` was asked for, and libtorch sees no GPU"))
            .hint("put the `lib` folder of a CUDA libtorch 2.11 on LD_LIBRARY_PATH, or leave out `--device`"));
    }
    Err(Error::usage(format!("device `cuda:{number}` was asked for; there are {count}, counted from 0")))
}

/// Lets libtorch use `threads` threads for what the calling thread asks of it. Sums come out the same to the bit only with
/// the same number.
pub fn use_threads(threads: usize) {
    tch::set_num_threads(i32::try_from(threads.max(1)).unwrap_or(i32::MAX));
}

/// Loads the CUDA half of libtorch once, before libtorch is first asked about GPUs: it remembers the answer.
fn load_cuda() {
    const LIBRARY: &CStr = c"libtorch_cuda.so";
    const NOW_AND_FOR_ALL: c_int = 0x2 | 0x100;
    static LOADED: Once = Once::new();
    #[expect(unsafe_code, reason = "the standard library has no way to load a shared library")]
    LOADED.call_once(|| {
        unsafe extern "C" {
            fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
        }
        // SAFETY: the name ends with a zero byte. The library stays loaded, so what it registers stays valid. A failure
        // (there is no such library) leaves libtorch without GPUs, which the caller reports.
        unsafe { dlopen(LIBRARY.as_ptr(), NOW_AND_FOR_ALL) };
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn a_gpu_that_is_not_there_is_a_usage_error_with_a_hint() {
        assert_eq!(to_tch(Device::Cpu).unwrap(), tch::Device::Cpu);
        assert_eq!(of_rank(Device::Cpu, 3).unwrap(), tch::Device::Cpu);
        let count = usize::try_from(tch::Cuda::device_count()).unwrap();
        let error = to_tch(Device::Cuda(count)).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().starts_with(&format!("device `cuda:{count}` was asked for")), "{error}");
    }
}
