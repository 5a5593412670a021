//! Products of a network with weights that are packed for inference.

use std::collections::HashMap;

use tch::{Device, Kind, TchError, Tensor};

use crate::safetensors_file::{libtorch_error, to_tensor_shape};
use crate::tensor_slices::{as_mut_slice, as_slice, is_f32_slice};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::packed_layer::PackedLayer;
use pairloom_kernels::product::ElementType;

/// Products of a network for inference.
#[derive(Debug)]
pub(super) struct PackedProducts {
    /// Type to which factors are rounded.
    pub element_type: ElementType,
    /// Packed weights with their bias, by the name of the weights.
    pub layers: HashMap<String, PackedLayer>,
}

impl PackedProducts {
    /// Type of the factors in libtorch, for products of weights that are not packed.
    pub fn kind(&self) -> Kind {
        match self.element_type {
            ElementType::F32 => Kind::Float,
            ElementType::Bf16 => Kind::BFloat16,
        }
    }
}

/// Orders the values of `[n, c, h, w]` as convolutions are fastest, which keeps its shape: by n, h, w and c (`channels_last`),
/// but in f32 on GPUs by n, c, h and w, as torchvision does: with `channels_last`, ResNet-152 had half of its rate there.
pub(super) fn fastest_order(tensor: &Tensor, element_type: ElementType) -> std::result::Result<Tensor, TchError> {
    match (tensor.device(), element_type) {
        (Device::Cuda(_), ElementType::F32) => tensor.f_contiguous(),
        _ => tensor.f_permute([0, 2, 3, 1])?.f_contiguous()?.f_permute([0, 3, 1, 2]),
    }
}

/// Product of the last dimension of `x` with a packed layer.
pub(super) fn apply(layer: &PackedLayer, x: &Tensor) -> Result<Tensor> {
    let of_libtorch = |error: TchError| libtorch_error(&error);
    let x = x.f_contiguous().map_err(of_libtorch)?;
    let mut size = x.size();
    let (Some(width), true) = (size.last_mut(), is_f32_slice(&x)) else {
        return Err(Error::internal("a packed layer of values that are not f32 in main memory"));
    };
    if usize::try_from(*width) != Ok(layer.inputs()) {
        return Err(Error::internal(format!("a layer of {} inputs got {width}", layer.inputs())));
    }
    *width = to_tensor_shape(&[layer.outputs()])?[0];
    let mut out = Tensor::f_empty(&size, (Kind::Float, Device::Cpu)).map_err(of_libtorch)?;
    layer.apply(as_slice(&x), as_mut_slice(&mut out));
    Ok(out)
}

/// Convolution of maps `[n, c, h, w]` with a kernel of 1 × 1 and this stride.
pub(super) fn apply_to_pixels(layer: &PackedLayer, stride: i64, maps: &Tensor) -> Result<Tensor> {
    let of_libtorch = |error: TchError| libtorch_error(&error);
    let strided = if stride == 1 {
        maps.shallow_clone()
    } else {
        let rows = maps.f_slice(2, None, None, stride).map_err(of_libtorch)?;
        rows.f_slice(3, None, None, stride).map_err(of_libtorch)?
    };
    let pixels = strided.f_permute([0, 2, 3, 1]).map_err(of_libtorch)?;
    apply(layer, &pixels)?.f_permute([0, 3, 1, 2]).map_err(of_libtorch)
}
