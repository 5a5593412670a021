//! Network prepared for inference on a CPU.
//!
//! - Batch normalisation is folded into the convolution before it.
//! - Linear layers, and convolutions with a kernel of 1 × 1, are products of this project's kernels, whose weights are
//!   packed once, on processors with AVX-512.
//! - The weights of other convolutions are in the order that oneDNN or cuDNN reads best.

use std::collections::HashMap;
use std::sync::Arc;

use tch::{Kind, TchError, Tensor};

use super::network::ImageNetwork;
use super::packed_products::{PackedProducts, fastest_order};
use crate::safetensors_file::libtorch_error;
use crate::tensor_slices::{as_slice, to_vec};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::packed_layer::PackedLayer;
use pairloom_kernels::product::{ElementType, has_avx512};
use pairloom_spec::networks::{Convolution, Layer};

impl ImageNetwork {
    /// Returns the network prepared for inference. It computes the same, with other roundings; with `mixed`, the factors of
    /// products are rounded to bf16. Its parameters are no longer those of the architecture.
    ///
    /// # Errors
    /// The device is out of memory.
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
        let on_cpu = self.device() == tch::Device::Cpu;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::networks::testing::{differences, formula_weights};
    use crate::networks::{Network, NetworkOutput};

    /// Features of a prepared network, beside those of the network as libtorch computes it.
    #[test]
    fn a_prepared_network_computes_the_same() {
        let byte = |i: u32| u8::try_from(i * 37 % 251).unwrap();
        let pixels: Vec<f32> = (0..2 * 3 * 64 * 64).map(|i| f32::from(byte(i)) / 100.0 - 1.2).collect();
        for network in [Network::SqueezeNet1_1, Network::MobileNetV2, Network::ResNet18, Network::ResNeXt50Of4] {
            let architecture = network.architecture();
            let weights = formula_weights(architecture.parameters());
            let plain = ImageNetwork::from_file(architecture, &weights, tch::Device::Cpu).unwrap();
            for output in [NetworkOutput::Embedding, NetworkOutput::ClassScores, NetworkOutput::Grid(2)] {
                let width = plain.output_width(output);
                let wanted = plain.compute(&pixels, 64, output).unwrap();
                let wanted: Vec<Vec<f32>> = wanted.chunks_exact(width).map(<[f32]>::to_vec).collect();
                // Folding moves the roundings of normalisations, which networks of random weights enlarge. In bf16 the
                // autocast of PyTorch differs as much: by 0.5 to 1.4 %, and with MobileNetV2 by 18 to 58 %.
                let mixed_most = if network == Network::MobileNetV2 { 1.0 } else { 0.03 };
                for (mixed, most) in [(false, 1e-4), (true, mixed_most)] {
                    let prepared = plain.share().prepare(mixed).unwrap();
                    let got = prepared.compute(&pixels, 64, output).unwrap();
                    let (_, relative) = differences(&got, wanted.iter(), width);
                    println!("{} {output:?} mixed {mixed}: {relative:.1e}", network.name());
                    assert!(relative < most, "{} {output:?} mixed {mixed}: {relative}", network.name());
                    assert!(mixed == (relative > 1e-4), "{} {output:?} mixed {mixed}: {relative}", network.name());
                }
            }
        }
    }
}
