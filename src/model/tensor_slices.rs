//! Tensors as slices, for kernels outside of libtorch.

use tch::{Device, Kind, Tensor};

use pairloom_base::error::{Error, Result};

/// Returns true if the tensor's values are available as a slice: f32, contiguous, on the CPU.
pub(super) fn is_f32_slice(tensor: &Tensor) -> bool {
    tensor.device() == Device::Cpu && tensor.kind() == Kind::Float && tensor.is_contiguous()
}

/// Values of a tensor for which [`is_f32_slice`] is true, row-major.
pub(super) fn as_slice(tensor: &Tensor) -> &[f32] {
    assert!(is_f32_slice(tensor), "a tensor of {:?} on {:?} is no slice", tensor.kind(), tensor.device());
    if tensor.numel() == 0 {
        return &[];
    }
    // SAFETY: the tensor is contiguous and has this many f32 in memory, which it keeps alive. Encoders do not change
    // parameters. The optimiser does, but its slices do not outlive its call.
    #[expect(unsafe_code, reason = "tch gives the memory of a tensor as a pointer")]
    unsafe {
        std::slice::from_raw_parts(tensor.data_ptr().cast(), tensor.numel())
    }
}

/// Mutable values of a tensor. No other reader or writer may exist meanwhile.
pub(super) fn as_mut_slice(tensor: &mut Tensor) -> &mut [f32] {
    assert!(is_f32_slice(tensor), "a tensor of {:?} on {:?} is no slice", tensor.kind(), tensor.device());
    if tensor.numel() == 0 {
        return &mut [];
    }
    // SAFETY: as in `as_slice`, and the tensor is borrowed mutably.
    #[expect(unsafe_code, reason = "tch gives the memory of a tensor as a pointer")]
    unsafe {
        std::slice::from_raw_parts_mut(tensor.data_ptr().cast(), tensor.numel())
    }
}

/// Copies the values of any tensor as f32, row-major.
pub(super) fn to_vec(tensor: &Tensor) -> Result<Vec<f32>> {
    let tensor = tensor.to_device(Device::Cpu).to_kind(Kind::Float).contiguous();
    Vec::try_from(tensor.view(-1)).map_err(|error| Error::internal(format!("cannot read a tensor: {error}")))
}

/// Number of threads that libtorch uses for calls from this thread.
pub(super) fn thread_count() -> usize {
    usize::try_from(tch::get_num_threads()).unwrap_or(1).max(1)
}
