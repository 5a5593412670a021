//! Tensors as slices, for kernels that are not libtorch's.

use tch::{Device, Kind, Tensor};

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
    // SAFETY: the tensor is contiguous and has this many f32 in memory, which it keeps alive. The encoders change none of
    // their parameters.
    #[expect(unsafe_code, reason = "tch gives the memory of a tensor as a pointer")]
    unsafe {
        std::slice::from_raw_parts(tensor.data_ptr().cast(), tensor.numel())
    }
}

/// The values of a new tensor, which nothing else shares, for writing.
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
