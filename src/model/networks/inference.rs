//! Network prepared for inference on a CPU.
//!
//! - Batch normalisation is folded into the convolution before it.
//! - Linear layers, and convolutions with a kernel of 1 × 1, are products of this project's kernels, whose weights are
//!   packed once, on processors with AVX-512.
//! - The weights of other convolutions are in the order that oneDNN or cuDNN reads best.

use std::collections::HashMap;
use std::sync::Arc;

use tch::{Device, Kind, TchError, Tensor};

use super::network::ImageNetwork;
use crate::safetensors_file::{libtorch_error, to_tensor_shape};
use crate::tensor_slices::{as_mut_slice, as_slice, is_f32_slice, to_vec};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::packed_layer::PackedLayer;
use pairloom_kernels::product::{ElementType, has_avx512};
use pairloom_spec::networks::{Convolution, Layer};

impl ImageNetwork {
    /// Returns the network prepared for inference. It computes the same, with other roundings; with `mixed`, the factors of
    /// products are rounded to bf16. Its parameters are no longer those of the architecture.
    pub fn prepare(self, mixed: bool) -> Result<Self> {
        tch::no_grad(|| self.fold_norms()?.pack(mixed))
    }

    /// Folds batch normalisations into the convolutions before them, in f64.
    fn fold_norms(self) -> Result<Self> {
        let (mut architecture, mut parameters) = (self.architecture.clone(), self.cloned_parameters());
        for layers in [&mut architecture.backbone, &mut architecture.embedding, &mut architecture.head] {
            fold_layers(layers, &mut parameters)?;
        }
        Ok(Self { architecture, parameters, ..self })
    }

    /// Orders the weights for the kernels that use them.
    fn pack(self, mixed: bool) -> Result<Self> {
        let element_type = if mixed { ElementType::Bf16 } else { ElementType::F32 };
        let on_cpu = self.device() == Device::Cpu;
        let mut parameters = self.cloned_parameters();
        let mut products = PackedProducts { element_type, layers: HashMap::new() };
        let mut layers = Vec::new();
        for part in [&self.architecture.backbone, &self.architecture.embedding, &self.architecture.head] {
            collect_products(part, &mut layers);
        }
        for (weight, bias) in layers.into_iter().filter(|_| on_cpu && (mixed || has_avx512(element_type))) {
            let missing = |name: &str| Error::internal(format!("the network has no parameter `{name}`"));
            let tensor = parameters.remove(&weight).ok_or_else(|| missing(&weight))?;
            let outputs = usize::try_from(tensor.size()[0]).unwrap_or_default();
            let bias = match bias {
                Some(bias) => to_vec(parameters.get(&bias).ok_or_else(|| missing(&bias))?)?,
                None => vec![0.0; outputs],
            };
            let tensor = tensor.f_contiguous().map_err(|error| libtorch_error(&error))?;
            products.layers.insert(weight, PackedLayer::new(element_type, as_slice(&tensor), bias));
        }
        let kind = products.kind();
        let ordered = parameters.into_iter().map(|(name, tensor)| {
            let ordered = match tensor.dim() {
                4 => fastest_order(&tensor, element_type).and_then(|ordered| ordered.f_to_kind(kind)),
                _ => Ok(tensor),
            };
            Ok((name, ordered.map_err(|error| libtorch_error(&error))?))
        });
        let parameters = ordered.collect::<Result<_>>()?;
        Ok(Self { parameters, products: Some(Arc::new(products)), ..self })
    }
}

/// Folds the batch normalisation after each convolution into it. `layers` keep their order.
fn fold_layers(layers: &mut Vec<Layer>, parameters: &mut HashMap<String, Tensor>) -> Result<()> {
    let mut folded: Vec<Layer> = Vec::with_capacity(layers.len());
    for layer in layers.drain(..) {
        match (folded.last_mut(), layer) {
            (Some(Layer::Conv(conv)), Layer::BatchNorm { name, epsilon, .. }) => {
                fold(conv, &name, epsilon, parameters).map_err(|error| libtorch_error(&error))?;
            }
            (_, Layer::Concat(mut branches)) => {
                branches.iter_mut().try_for_each(|branch| fold_layers(branch, parameters))?;
                folded.push(Layer::Concat(branches));
            }
            (_, Layer::Sum(mut branches)) => {
                branches.iter_mut().try_for_each(|branch| fold_layers(branch, parameters))?;
                folded.push(Layer::Sum(branches));
            }
            (_, other) => folded.push(other),
        }
    }
    *layers = folded;
    Ok(())
}

/// w ← w · γ / √(σ² + ε), and b ← (b − μ) · γ / √(σ² + ε) + β.
fn fold(
    conv: &mut Convolution,
    norm: &str,
    epsilon: f64,
    parameters: &mut HashMap<String, Tensor>,
) -> std::result::Result<(), TchError> {
    let missing = || TchError::Torch(format!("the network lacks a parameter of `{norm}`"));
    let mut take = |name: String| parameters.remove(&name).ok_or_else(missing)?.f_to_kind(Kind::Double);
    let [gamma, beta, mean, variance] =
        ["weight", "bias", "running_mean", "running_var"].map(|what| take(format!("{norm}.{what}")));
    let scale = gamma?.f_div(&variance?.f_add_scalar(epsilon)?.f_sqrt()?)?;
    let weight = take(format!("{}.weight", conv.name))?.f_mul(&scale.f_view([-1, 1, 1, 1])?)?;
    let shift = if conv.bias { take(format!("{}.bias", conv.name))?.f_sub(&mean?)? } else { mean?.f_neg()? };
    let bias = shift.f_mul(&scale)?.f_add(&beta?)?;
    parameters.insert(format!("{}.weight", conv.name), weight.f_to_kind(Kind::Float)?);
    parameters.insert(format!("{}.bias", conv.name), bias.f_to_kind(Kind::Float)?);
    conv.bias = true;
    Ok(())
}

/// Appends the names of weight and bias of each product.
fn collect_products(layers: &[Layer], all: &mut Vec<(String, Option<String>)>) {
    for layer in layers {
        match layer {
            Layer::Conv(conv) if conv.is_pixel_wise() => {
                let bias = conv.bias.then(|| format!("{}.bias", conv.name));
                all.push((format!("{}.weight", conv.name), bias));
            }
            Layer::Linear { name, .. } => all.push((format!("{name}.weight"), Some(format!("{name}.bias")))),
            Layer::Attention { name, .. } => {
                all.push((format!("{name}.in_proj_weight"), Some(format!("{name}.in_proj_bias"))));
                all.push((format!("{name}.out_proj.weight"), Some(format!("{name}.out_proj.bias"))));
            }
            Layer::Concat(branches) | Layer::Sum(branches) => {
                for branch in branches {
                    collect_products(branch, all);
                }
            }
            _ => {}
        }
    }
}

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
pub(super) fn apply_packed(layer: &PackedLayer, x: &Tensor) -> Result<Tensor> {
    let tensor_error = |error: TchError| libtorch_error(&error);
    let x = x.f_contiguous().map_err(tensor_error)?;
    let mut size = x.size();
    let (Some(width), true) = (size.last_mut(), is_f32_slice(&x)) else {
        return Err(Error::internal("a packed layer of values that are not f32 in main memory"));
    };
    if usize::try_from(*width) != Ok(layer.inputs()) {
        return Err(Error::internal(format!("a layer of {} inputs got {width}", layer.inputs())));
    }
    *width = to_tensor_shape(&[layer.outputs()])?[0];
    let mut out = Tensor::f_empty(&size, (Kind::Float, Device::Cpu)).map_err(tensor_error)?;
    layer.apply(as_slice(&x), as_mut_slice(&mut out));
    Ok(out)
}

/// Convolution of maps `[n, c, h, w]` with a kernel of 1 × 1 and this stride.
pub(super) fn apply_packed_to_pixels(layer: &PackedLayer, stride: i64, maps: &Tensor) -> Result<Tensor> {
    let tensor_error = |error: TchError| libtorch_error(&error);
    let strided = if stride == 1 {
        maps.shallow_clone()
    } else {
        let rows = maps.f_slice(2, None, None, stride).map_err(tensor_error)?;
        rows.f_slice(3, None, None, stride).map_err(tensor_error)?
    };
    let pixels = strided.f_permute([0, 2, 3, 1]).map_err(tensor_error)?;
    apply_packed(layer, &pixels)?.f_permute([0, 3, 1, 2]).map_err(tensor_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::networks::NetworkOutput;
    use crate::networks::testing::{differences, formula_weights};
    use pairloom_spec::networks::Network;

    /// Features of a prepared network, beside those of the network as libtorch computes it.
    #[test]
    fn a_prepared_network_computes_the_same() {
        let byte = |i: u32| u8::try_from(i * 37 % 251).unwrap();
        let pixels: Vec<f32> = (0..2 * 3 * 64 * 64).map(|i| f32::from(byte(i)) / 100.0 - 1.2).collect();
        for network in [Network::SqueezeNet1_1, Network::MobileNetV2, Network::ResNet18, Network::ResNeXt50Of4] {
            let architecture = network.architecture();
            let weights = formula_weights(architecture.parameters());
            let plain = ImageNetwork::from_file(architecture, &weights, Device::Cpu).unwrap();
            for output in [NetworkOutput::Embedding, NetworkOutput::ClassScores, NetworkOutput::Grid(2)] {
                let width = plain.output_width(output);
                let expected = plain.compute(&pixels, 64, output).unwrap();
                let expected: Vec<Vec<f32>> = expected.chunks_exact(width).map(<[f32]>::to_vec).collect();
                // Folding moves the roundings of normalisations, which networks of random weights enlarge. In bf16 the
                // autocast of PyTorch differs as much: by 0.5 to 1.4 %, and with MobileNetV2 by 18 to 58 %.
                let mixed_most = if network == Network::MobileNetV2 { 1.0 } else { 0.03 };
                for (mixed, most) in [(false, 1e-4), (true, mixed_most)] {
                    let prepared = plain.share().prepare(mixed).unwrap();
                    let got = prepared.compute(&pixels, 64, output).unwrap();
                    let (_, relative) = differences(&got, expected.iter(), width);
                    println!("{} {output:?} mixed {mixed}: {relative:.1e}", network.name());
                    assert!(relative < most, "{} {output:?} mixed {mixed}: {relative}", network.name());
                    assert!(mixed == (relative > 1e-4), "{} {output:?} mixed {mixed}: {relative}", network.name());
                }
            }
        }
    }
}
