//! Devices of libtorch: conversion from the run's device, loading of CUDA, arithmetic on GPUs, number of threads, and
//! page-locked memory of batches for fast copies to a GPU.

use std::ffi::c_void;
use std::sync::{Arc, Once};

use az::SaturatingAs;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use tch::Tensor;

use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::Device;
use pairloom_loader::{AllocateBuffer, ValueBuffer, pooled, pooled_heap};

/// Returns the device of libtorch, after checking that it is available. For a GPU this turns TF32 off, so that f32
/// products and convolutions are computed in f32. It also selects deterministic algorithms, so that a training that was
/// killed ends with the bits of one that was not.
///
/// The CPU part of libtorch is linked. Its CUDA part is loaded when a GPU is first requested, from the dynamic loader's
/// path (`LD_LIBRARY_PATH`). So one binary serves machines with and without GPUs.
///
/// # Errors
/// The CUDA part or the driver is missing, or there are fewer GPUs than requested.
pub fn to_tch(device: Device) -> Result<tch::Device> {
    device_of_rank(device, 0)
}

/// Returns the device of libtorch for the rank of local rank `local`, which uses the GPU `local` places after the
/// requested one. Ranks share GPUs if there are fewer GPUs than ranks.
pub fn device_of_rank(device: Device, local: usize) -> Result<tch::Device> {
    let Device::Cuda(number) = device else { return Ok(tch::Device::Cpu) };
    load_cuda();
    let count = tch::Cuda::device_count().saturating_as::<usize>();
    if let Some(number) = gpu_of_rank(number, local, count) {
        if allow_tf32(false) {
            return Err(Error::internal("libtorch does not turn off TF32"));
        }
        if !select_deterministic_algorithms() {
            return Err(Error::internal("libtorch does not select deterministic algorithms"));
        }
        return Ok(tch::Device::Cuda(number));
    }
    if count == 0 {
        return Err(Error::usage(format!("device `cuda:{number}` does not exist: libtorch finds no GPU"))
            .hint("put the `lib` folder of a CUDA libtorch 2.11 on LD_LIBRARY_PATH, or leave out `--device`"));
    }
    Err(Error::usage(format!("device `cuda:{number}` does not exist: there are {count} GPUs, numbered from 0")))
}

/// Allows or forbids TF32, with its 10 bits of mantissa, for f32 products and convolutions on GPUs in the whole process.
/// Returns true if TF32 is allowed now. Searches rely on f32, and features of a network computed with TF32 differ by 1e-3, so
/// it is forbidden, whatever the environment says (`TORCH_ALLOW_TF32_CUBLAS_OVERRIDE`).
#[expect(unsafe_code, reason = "the function exists in C++ only, not in tch")]
fn allow_tf32(allow: bool) -> bool {
    unsafe extern "C" {
        fn pairloom_allow_tf32(allow: bool) -> bool;
    }
    // SAFETY: the signature is that of `gpu_arithmetic.cpp`, and the function only sets a flag.
    unsafe { pairloom_allow_tf32(allow) }
}

/// Selects algorithms that give the same bits each time, in the whole process. By default, sums over equal indices
/// (`index_add`, and gradients of `index_select` and `gather`) are added in the order in which the threads of the GPU come.
/// Returns true if they are selected now.
///
/// Recurrent networks of cuDNN need `CUBLAS_WORKSPACE_CONFIG` besides, says the reference of `torch.nn.GRU`. `pairloom` sets
/// it before it starts the program with libtorch.
#[expect(unsafe_code, reason = "the function exists in C++ only, not in tch")]
fn select_deterministic_algorithms() -> bool {
    unsafe extern "C" {
        fn pairloom_select_deterministic_algorithms() -> bool;
    }
    // SAFETY: the signature is that of `gpu_arithmetic.cpp`, and the function only sets flags.
    unsafe { pairloom_select_deterministic_algorithms() }
}

/// GPU of local rank `local`, of `count` GPUs, if GPU `number` was requested. `None` if that does not exist.
fn gpu_of_rank(number: usize, local: usize, count: usize) -> Option<usize> {
    (number < count).then(|| (number + local) % count)
}

/// Sets the number of threads that libtorch uses for calls from this thread. Sums are equal bit for bit only with the
/// same number.
pub fn set_thread_count(threads: usize) {
    tch::set_num_threads(threads.max(1).saturating_as::<i32>());
}

/// Loads the CUDA part of libtorch once, before the first query for GPUs, whose result libtorch caches.
fn load_cuda() {
    static LOADED: Once = Once::new();
    #[expect(unsafe_code, reason = "loading a library runs its code")]
    LOADED.call_once(|| {
        // SAFETY: the library is part of the linked libtorch. It stays loaded, so everything it registers stays valid.
        if let Ok(library) = unsafe { Library::open(Some("libtorch_cuda.so"), RTLD_NOW | RTLD_GLOBAL) } {
            let _ = library.into_raw();
        }
        // On failure, as when the library is missing, libtorch has no GPUs, which the caller reports.
    });
}

/// Allocator of the memory of batches for `device`. Page-locked for a GPU, so copies need no staging copy and overlap
/// with other work; ordinary memory for the CPU.
#[must_use]
pub fn allocator_for_device(device: tch::Device) -> AllocateBuffer {
    if !device.is_cuda() {
        return pooled_heap();
    }
    pooled(Arc::new(|values| Ok(Box::new(PinnedMemory::new(values)?))))
}

/// Memory of a page-locked tensor.
struct PinnedMemory {
    tensor: Tensor,
    values: usize,
}

impl PinnedMemory {
    #[expect(unsafe_code, reason = "the function exists in C++ only, not in tch")]
    fn new(values: usize) -> Result<Self> {
        unsafe extern "C" {
            fn pairloom_pinned_zeros(count: i64) -> *mut c_void;
        }
        let size = i64::try_from(values).map_err(|_| Error::internal(format!("a batch of {values} values")))?;
        // SAFETY: the signature is that of `pinned_memory.cpp`, and any number is a valid argument.
        let tensor = unsafe { pairloom_pinned_zeros(size) };
        if tensor.is_null() {
            return Err(Error::stage(format!("no page-locked memory for a batch of {values} values"))
                .hint("give the stage smaller batches, or raise the limit of locked memory (`ulimit -l`)"));
        }
        // SAFETY: it is a new tensor of libtorch, which nothing else owns.
        let tensor = unsafe { Tensor::from_ptr(tensor.cast()) };
        Ok(Self { tensor, values })
    }
}

#[expect(unsafe_code, reason = "tch gives the memory of a tensor as a pointer")]
impl ValueBuffer for PinnedMemory {
    fn values(&self) -> &[f32] {
        // SAFETY: the tensor is contiguous f32 with this many values, lives as long as `self`, and is not shared.
        unsafe { std::slice::from_raw_parts(self.tensor.data_ptr().cast(), self.values) }
    }

    fn values_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `values`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.tensor.data_ptr().cast(), self.values) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_base::error::ErrorCategory;

    #[test]
    fn local_ranks_use_the_gpus_in_turn() {
        let gpus = |number, ranks, count| (0..ranks).map(|rank| gpu_of_rank(number, rank, count)).collect::<Vec<_>>();
        assert_eq!(gpus(0, 3, 4), [Some(0), Some(1), Some(2)]);
        assert_eq!(gpus(3, 3, 4), [Some(3), Some(0), Some(1)]);
        assert_eq!(gpus(0, 3, 1), [Some(0); 3]);
        assert_eq!(gpus(4, 1, 4), [None]);
        assert_eq!(gpus(0, 1, 0), [None]);
    }

    /// Run by the next test as a child process, with an environment that allows TF32, because the flag is global.
    #[test]
    #[ignore = "run by another test"]
    fn gpu_arithmetic_child_process() {
        assert!(allow_tf32(true));
        assert!(!allow_tf32(false), "the environment wins");
        allow_tf32(true);
        assert!(select_deterministic_algorithms());
        let Ok(device) = to_tch(Device::Cuda(0)) else { return test_data::impossible("no GPU to multiply on") };
        let index = Tensor::randint(16, [1 << 20], (tch::Kind::Int64, device));
        let values = Tensor::randn([1 << 20], (tch::Kind::Float, device));
        let sums = || Tensor::zeros([16], (tch::Kind::Float, device)).index_add(0, &index, &values);
        let first = sums();
        assert!((0..20).all(|_| sums().equal(&first)), "sums over equal indices have the same bits");
        // (1 + 2⁻¹²)² needs more than the 10 bits of TF32.
        let ones = Tensor::full([64, 64], 1.0 + 2f64.powi(-12), (tch::Kind::Float, device));
        let product = f64::try_from(ones.matmul(&ones).get(0).get(0)).unwrap();
        assert!((product - 64.0 * (1.0 + 2f64.powi(-12)).powi(2)).abs() < 1e-4, "{product}");
    }

    #[test]
    fn arithmetic_on_gpus_is_f32_whatever_the_environment_says_and_deterministic() {
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        program.args(["--ignored", "--exact", "device::tests::gpu_arithmetic_child_process", "--show-output"]);
        let output = program.env("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1").output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
        print!("{stdout}");
    }

    #[test]
    fn a_missing_gpu_is_a_usage_error_with_a_hint() {
        assert_eq!(to_tch(Device::Cpu).unwrap(), tch::Device::Cpu);
        assert_eq!(device_of_rank(Device::Cpu, 3).unwrap(), tch::Device::Cpu);
        let count = usize::try_from(tch::Cuda::device_count()).unwrap();
        let error = to_tch(Device::Cuda(count)).unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Usage);
        assert!(error.to_string().starts_with(&format!("device `cuda:{count}` does not exist")), "{error}");
    }
}
