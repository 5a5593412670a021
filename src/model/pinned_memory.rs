//! Page-locked memory of batches, for fast copies to a GPU.

use std::ffi::c_void;
use std::sync::Arc;

use tch::{Device, Tensor};

use pairloom_base::error::{Error, Result};
use pairloom_loader::{AllocateBuffer, ValueBuffer, pooled, pooled_heap};

/// Allocator of the memory of batches for `device`. Page-locked for a GPU, so copies need no staging copy and overlap
/// with other work; ordinary memory for the CPU.
#[must_use]
pub fn allocator_for_device(device: Device) -> AllocateBuffer {
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
