//! Page-locked memory of batches, for fast copies to a GPU.

use std::sync::Arc;

use tch::{Device, Kind, Tensor};

use crate::error::{Error, Result};
use crate::loader::{AllocateBuffer, ValueBuffer, pooled, pooled_heap};

/// Allocator of the memory of batches for `device`. Page-locked for a GPU, so copies need no staging copy and overlap
/// with other work; ordinary memory for the CPU.
#[must_use]
pub fn allocator_for_device(device: Device) -> AllocateBuffer {
    if !device.is_cuda() {
        return pooled_heap();
    }
    pooled(Arc::new(move |values| Ok(Box::new(PinnedMemory::new(values, device)?))))
}

/// Memory of a page-locked tensor.
struct PinnedMemory {
    tensor: Tensor,
    values: usize,
}

impl PinnedMemory {
    fn new(values: usize, device: Device) -> Result<Self> {
        let size = i64::try_from(values).map_err(|_| Error::internal(format!("a batch of {values} values")))?;
        let tensor = Tensor::zeros([size], (Kind::Float, Device::Cpu)).pin_memory(device);
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
