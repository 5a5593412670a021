//! Tensors as slices, for kernels that are not libtorch's.

use tch::{Device, Kind, Tensor};

use crate::error::{Error, Result};

/// Whether a tensor's values can be had as a slice.
pub(super) fn is_slice(tensor: &Tensor) -> bool {
    tensor.device() == Device::Cpu && tensor.kind() == Kind::Float && tensor.is_contiguous()
}

/// The values of a tensor for which [`is_slice`] holds, row-major.
pub(super) fn values(tensor: &Tensor) -> &[f32] {
    assert!(is_slice(tensor), "a tensor of {:?} on {:?} is no slice", tensor.kind(), tensor.device());
    if tensor.numel() == 0 {
        return &[];
    }
    // SAFETY: the tensor is contiguous and has this many f32 in memory, which it keeps alive. No encoder changes its
    // parameters, and an optimiser gives back what it has before it returns.
    #[expect(unsafe_code, reason = "tch gives the memory of a tensor as a pointer")]
    unsafe {
        std::slice::from_raw_parts(tensor.data_ptr().cast(), tensor.numel())
    }
}

/// The values of a tensor that nobody else reads or writes meanwhile, for writing.
pub(super) fn values_mut(tensor: &mut Tensor) -> &mut [f32] {
    assert!(is_slice(tensor), "a tensor of {:?} on {:?} is no slice", tensor.kind(), tensor.device());
    if tensor.numel() == 0 {
        return &mut [];
    }
    // SAFETY: as above, and the tensor is borrowed for writing.
    #[expect(unsafe_code, reason = "tch gives the memory of a tensor as a pointer")]
    unsafe {
        std::slice::from_raw_parts_mut(tensor.data_ptr().cast(), tensor.numel())
    }
}

/// A copy of the values of any tensor, as f32, row-major.
///
/// # Errors
/// A failure of libtorch.
pub(super) fn to_vec(tensor: &Tensor) -> Result<Vec<f32>> {
    let tensor = tensor.to_device(Device::Cpu).to_kind(Kind::Float).contiguous();
    Vec::try_from(tensor.view(-1)).map_err(|error| Error::internal(format!("cannot read a tensor: {error}")))
}

/// Threads that libtorch would use for what the calling thread asks of it.
pub(super) fn threads() -> usize {
    usize::try_from(tch::get_num_threads()).unwrap_or(1).max(1)
}
