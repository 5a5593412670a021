//! Memory of batches that a GPU reads from directly.

use std::sync::Arc;

use tch::{Device, Kind, Tensor};

use crate::error::{Error, Result};
use crate::loader::{Allocate, Memory, plain, reused};

/// Memory for batches that go to `device`: page-locked for a GPU, so that copies to it need no copy before, and run beside
/// other work; plain for the processor.
#[must_use]
pub fn for_device(device: Device) -> Allocate {
    if !device.is_cuda() {
        return plain();
    }
    reused(Arc::new(move |values| Ok(Box::new(Pinned::new(values, device)?))))
}

/// A page-locked tensor, for its memory.
struct Pinned {
    tensor: Tensor,
    values: usize,
}

impl Pinned {
    fn new(values: usize, device: Device) -> Result<Self> {
        let size = i64::try_from(values).map_err(|_| Error::internal(format!("a batch of {values} values")))?;
        let tensor = Tensor::zeros([size], (Kind::Float, Device::Cpu)).pin_memory(device);
        Ok(Self { tensor, values })
    }
}

#[expect(unsafe_code, reason = "tch gives the memory of a tensor as a pointer")]
impl Memory for Pinned {
    fn values(&self) -> &[f32] {
        // SAFETY: the tensor is contiguous, of f32, has this many values, and lives as long as `self`; nobody else has it.
        unsafe { std::slice::from_raw_parts(self.tensor.data_ptr().cast(), self.values) }
    }

    fn values_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.tensor.data_ptr().cast(), self.values) }
    }
}
