//! Image network with its weights, from a file or random: computes features or class scores of images.

use std::collections::HashMap;
use std::sync::Arc;

use az::SaturatingAs;
use tch::{Kind, Tensor};

use super::inference::{PackedProducts, apply_packed, apply_packed_to_pixels, fastest_order};
use crate::safetensors_file::{
    self, ExpectedParameter, NamedTensors, libtorch_error, read_parameters, to_tensor_shape,
};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_kernels::product::ElementType;
use pairloom_kernels::random::Rng;
use pairloom_spec::networks::{
    Architecture, Convolution, FilePart, Layer, Network, NetworkInit, NetworkParameterSpec, parameter_name,
};

/// Output of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkOutput {
    /// Mean of every feature map.
    PooledFeatures,
    /// Feature vector that the network computes from the feature maps, such as fc7 of VGG; the mean of every feature map
    /// for networks without one.
    Embedding,
    /// Scores of the classes.
    ClassScores,
    /// Means of every feature map over the cells of a square grid with this many cells a side: cell by cell, row by row.
    /// The cells are those of `AdaptiveAvgPool2d`; a grid as large as the feature maps is the maps themselves.
    Grid(usize),
}

/// Means of feature maps `[n, c, h, w]` over the cells of a grid: `[n, side², c]`.
pub(super) fn grid(maps: &Tensor, side: usize) -> Result<Tensor> {
    let (size, cells) = (maps.size(), to_tensor_shape(&[side, side])?);
    if size[2] < cells[0] || size[3] < cells[1] {
        let (height, width) = (size[2], size[3]);
        return Err(Error::data(format!(
            "the feature maps have {height} × {width} cells, expected a grid of {side} × {side}"
        ))
        .hint("set a smaller `grid`, or a larger `crop`"));
    }
    let means = means_of_cells(maps, side).map_err(|error| libtorch_error(&error))?;
    Ok(means.flatten(2, 3).transpose(1, 2))
}

/// Means of feature maps `[n, c, h, w]` over the cells of a grid: `[n, c, side, side]`.
///
/// The gradient of libtorch's operation on a GPU is added in the order in which threads come, so a fine-tuned network
/// computes products there.
fn means_of_cells(maps: &Tensor, side: usize) -> std::result::Result<Tensor, tch::TchError> {
    if maps.requires_grad() && maps.device().is_cuda() {
        return means_by_products(maps, side);
    }
    let side = side.saturating_as::<i64>();
    maps.f_adaptive_avg_pool2d([side, side])
}

/// [`means_of_cells`] as `A · maps · Bᵀ`, where a row of A has the weights of the rows of a cell, and one of B those of its
/// columns.
#[expect(clippy::cast_precision_loss, reason = "cells are small")]
fn means_by_products(maps: &Tensor, side: usize) -> std::result::Result<Tensor, tch::TchError> {
    let size = maps.size();
    let weights = |length: i64| {
        let length = length.saturating_as::<usize>();
        let cells = (0..side).map(|cell| cell * length / side..((cell + 1) * length).div_ceil(side));
        let rows = cells.flat_map(|cell| {
            (0..length).map(move |place| if cell.contains(&place) { 1.0 / cell.len() as f64 } else { 0.0 })
        });
        let rows = Tensor::from_slice(&rows.collect::<Vec<f64>>()).view([-1, length.saturating_as::<i64>()]);
        rows.to_kind(maps.kind()).to_device(maps.device())
    };
    weights(size[2]).f_matmul(maps)?.f_matmul(&weights(size[3]).transpose(0, 1))
}

/// Share of the statistics of a batch in the stored ones, as in `torch.nn.BatchNorm2d`.
const BATCH_MOMENTUM: f64 = 0.1;

/// Prefix of the names of a network's parameters in a model.
pub const MODEL_PREFIX: &str = "img_enc.cnn.";

/// Network with its weights.
#[derive(Debug)]
pub struct ImageNetwork {
    pub(super) architecture: Architecture,
    pub(super) parameters: HashMap<String, Tensor>,
    /// Products for inference, see [`ImageNetwork::prepare`]. Their weights are not among `parameters`. `None` for a network that
    /// libtorch computes alone, and can differentiate.
    pub(super) products: Option<Arc<PackedProducts>>,
    pub(super) device: tch::Device,
    /// True if batch normalisation uses the statistics of the batch, and updates the stored ones in place.
    pub(super) batch_statistics: bool,
    pub(super) cancel: CancelToken,
}

impl ImageNetwork {
    /// Reads the weights of a safetensors file with torchvision's names. `num_batches_tracked`, which inference does
    /// not use, may be present.
    ///
    /// # Errors
    /// As [`read_parameters`]; weights of another network of the list, which the error names; or the device is out of memory.
    pub fn from_file(architecture: Architecture, bytes: &[u8], device: tch::Device) -> Result<Self> {
        let expected: Vec<ExpectedParameter> = architecture
            .parameters()
            .into_iter()
            .map(|parameter| ExpectedParameter { name: parameter.name, shape: parameter.shape })
            .collect();
        let unneeded = |name: &str| architecture.file_part.is_unneeded(name);
        match read_parameters(bytes, &expected, unneeded) {
            Ok(parameters) => Self::new(architecture, parameters, device),
            Err(error) => Err(other_weights_error(&architecture, bytes).unwrap_or(error)),
        }
    }

    /// Reads the weights of the network in the `model.safetensors` of a model that was trained with one.
    ///
    /// # Errors
    /// Bytes that are not a model, or a model without a network of this architecture.
    pub fn from_model(architecture: Architecture, bytes: &[u8], device: tch::Device) -> Result<Self> {
        let mut named = NamedTensors::from_bytes(bytes)?;
        if !named.tensors.keys().any(|name| name.starts_with(MODEL_PREFIX)) {
            return Err(Error::data("the model has no CNN: it was trained on stored features")
                .hint("only a training with `finetune` saves the weights of a CNN"));
        }
        let expected = architecture.parameters().into_iter();
        let parameters = expected.map(|expected| named.take(&format!("{MODEL_PREFIX}{}", expected.name)));
        Self::from_parameters(architecture, &parameters.collect::<Result<Vec<_>>>()?, device)
    }

    /// Creates the network with random weights, a function of the seed.
    pub fn random(architecture: Architecture, seed: u64, device: tch::Device) -> Result<Self> {
        Self::random_from(architecture, seed, 0, device)
    }

    /// As [`ImageNetwork::random`], with the random numbers of the parameters from number `first` on.
    pub(super) fn random_from(architecture: Architecture, seed: u64, first: u64, device: tch::Device) -> Result<Self> {
        let mut parameters = HashMap::new();
        for (index, parameter) in (first..).zip(architecture.parameters()) {
            let values = draw_parameter(&parameter, seed, index);
            let shape = to_tensor_shape(&parameter.shape)?;
            let tensor = Tensor::f_from_slice(&values)
                .and_then(|tensor| tensor.f_reshape(&shape))
                .map_err(|error| libtorch_error(&error))?;
            parameters.insert(parameter.name, tensor);
        }
        Self::new(architecture, parameters, device)
    }

    fn new(architecture: Architecture, parameters: HashMap<String, Tensor>, device: tch::Device) -> Result<Self> {
        let parameters = parameters
            .into_iter()
            .map(|(name, tensor)| Ok((name, tensor.f_to_device(device).map_err(|error| libtorch_error(&error))?)))
            .collect::<Result<_>>()?;
        let cancel = CancelToken::new();
        Ok(Self { architecture, parameters, products: None, device, batch_statistics: false, cancel })
    }

    /// Creates the network from parameters in the order of [`Architecture::parameters`]. The tensors are shared, so
    /// changing them changes the network.
    ///
    /// # Errors
    /// A tensor of the wrong shape.
    pub fn from_parameters(architecture: Architecture, parameters: &[Tensor], device: tch::Device) -> Result<Self> {
        let mut named = HashMap::new();
        for (expected, tensor) in architecture.parameters().into_iter().zip(parameters) {
            if tensor.size() != to_tensor_shape(&expected.shape)? {
                let (name, got, shape) = (&expected.name, tensor.size(), &expected.shape);
                return Err(Error::data(format!("`{name}` is {got:?}, expected {shape:?}")));
            }
            named.insert(expected.name, tensor.shallow_clone());
        }
        Self::new(architecture, named, device)
    }

    /// Parameters with their names, in the order of [`Architecture::parameters`].
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, Tensor)> {
        let expected = self.architecture.parameters().into_iter();
        expected.filter_map(|expected| self.parameters.get_key_value(&expected.name)).map(clone_entry).collect()
    }

    /// Width of a [feature](ImageNetwork::features).
    #[must_use]
    pub fn feature_width(&self) -> usize {
        self.architecture.embedding_width
    }

    /// Computes the features, `[n, width]`, of images `[n, 3, side, side]`: the feature vectors of the network, or the
    /// means of its feature maps if it has none.
    ///
    /// # Errors
    /// Images that are too small for the network.
    pub fn features(&self, images: &Tensor) -> Result<Tensor> {
        let maps = self.forward(&self.architecture.backbone, images.shallow_clone())?;
        self.embed(maps)
    }

    /// Device of the parameters.
    pub(super) fn device(&self) -> tch::Device {
        self.device
    }

    /// Output of the backbone.
    pub(super) fn backbone_output(&self, input: Tensor) -> Result<Tensor> {
        self.forward(&self.architecture.backbone, input)
    }

    /// Output of the layers after the backbone.
    pub(super) fn embedding_output(&self, input: Tensor) -> Result<Tensor> {
        self.forward(&self.architecture.embedding, input)
    }

    /// Computes the features of feature maps.
    fn embed(&self, maps: Tensor) -> Result<Tensor> {
        match self.architecture.embedding.as_slice() {
            [] => self.forward(&[Layer::GlobalAverage], maps),
            embedding => self.forward(embedding, maps),
        }
    }

    /// Returns the network up to a named layer, see [`Architecture::up_to`]. The weights behind it are dropped.
    ///
    /// # Errors
    /// There is no such layer.
    pub fn up_to(self, name: &str) -> Result<Self> {
        let missing = || Error::internal(format!("the network has no layer `{name}`"));
        let architecture = self.architecture.up_to(name).ok_or_else(missing)?;
        let kept = architecture.parameters().into_iter();
        let parameters = kept.filter_map(|kept| self.parameters.get_key_value(&kept.name)).map(clone_entry).collect();
        Ok(Self { architecture, parameters, ..self })
    }

    /// Returns the same network for another thread. The weights are shared, not copied.
    #[must_use]
    pub fn share(&self) -> Self {
        self.map_parameters(|_, tensor| tensor.shallow_clone())
    }

    /// Parameters by name. The tensors are shared.
    pub(super) fn cloned_parameters(&self) -> HashMap<String, Tensor> {
        self.parameters.iter().map(clone_entry).collect()
    }

    /// Returns the network with each parameter replaced by the result of `change`.
    pub(super) fn map_parameters(&self, change: impl Fn(&str, &Tensor) -> Tensor) -> Self {
        let parameters = self.parameters.iter().map(|(name, tensor)| (name.clone(), change(name, tensor))).collect();
        let (products, cancel) = (self.products.clone(), self.cancel.clone());
        let (architecture, device) = (self.architecture.clone(), self.device);
        Self { architecture, parameters, products, device, batch_statistics: self.batch_statistics, cancel }
    }

    /// Returns the network with statistics of the batch, or with the stored ones.
    pub(super) fn with_batch_statistics(self, batch_statistics: bool) -> Self {
        Self { batch_statistics, ..self }
    }

    /// Returns the network with a token that is checked before each layer.
    #[must_use]
    pub fn with_cancel(self, cancel: CancelToken) -> Self {
        Self { cancel, ..self }
    }

    /// Number of values that `output` has for one image.
    #[must_use]
    pub fn output_width(&self, output: NetworkOutput) -> usize {
        match output {
            NetworkOutput::PooledFeatures => self.architecture.width,
            NetworkOutput::Embedding => self.architecture.embedding_width,
            NetworkOutput::ClassScores => self.architecture.classes,
            NetworkOutput::Grid(side) => side * side * self.architecture.width,
        }
    }

    /// Computes `output` of square images, given one after the other as normalised pixels, 3 channels × `side` ×
    /// `side`. The result is row-major with [`Self::output_width`] values for each image.
    ///
    /// # Errors
    /// A number of pixels that is not a multiple of a image's, images that are too small for the network, or a device
    /// that is out of memory. The run was cancelled.
    pub fn compute(&self, pixels: &[f32], side: usize, output: NetworkOutput) -> Result<Vec<f32>> {
        let one = 3 * side * side;
        if one == 0 || !pixels.len().is_multiple_of(one) {
            return Err(Error::internal(format!(
                "{} values are not a whole number of images of side {side}",
                pixels.len()
            )));
        }
        let count = pixels.len() / one;
        if count == 0 {
            return Ok(Vec::new());
        }
        let shape = to_tensor_shape(&[count, 3, side, side])?;
        tch::no_grad(|| {
            // Operations keep the order of the values, if the weights have it too.
            let element_type = self.products.as_ref().map_or(ElementType::F32, |products| products.element_type);
            let input = Tensor::f_from_slice(pixels)
                .and_then(|tensor| tensor.f_reshape(&shape)?.f_to_device(self.device))
                .and_then(|tensor| fastest_order(&tensor, element_type))
                .map_err(|error| libtorch_error(&error))?;
            let maps = self.forward(&self.architecture.backbone, input)?;
            let result = match output {
                NetworkOutput::PooledFeatures => self.forward(&[Layer::GlobalAverage], maps)?,
                NetworkOutput::Embedding => self.embed(maps)?,
                NetworkOutput::ClassScores if self.architecture.embedding.is_empty() => {
                    self.forward(&self.architecture.head, maps)?
                }
                NetworkOutput::ClassScores => self.forward(&self.architecture.head, self.embed(maps)?)?,
                NetworkOutput::Grid(side) => grid(&maps, side)?,
            };
            let mut values = vec![0.0; count * self.output_width(output)];
            if result.numel() != values.len() {
                return Err(Error::internal(format!("the CNN returned {:?} for {count} images", result.size())));
            }
            result
                .f_to_device(tch::Device::Cpu)
                .and_then(|tensor| tensor.f_contiguous()?.f_copy_data(&mut values, count * self.output_width(output)))
                .map_err(|error| libtorch_error(&error))?;
            Ok(values)
        })
    }

    fn forward(&self, layers: &[Layer], mut x: Tensor) -> Result<Tensor> {
        for layer in layers {
            self.cancel.check()?;
            x = match layer {
                // In place: the input of an activation is always a new tensor without other uses.
                Layer::Relu => x.f_relu_().map_err(|error| libtorch_error(&error))?,
                Layer::Relu6 => x.f_relu6_().map_err(|error| libtorch_error(&error))?,
                Layer::Tap { .. } => x,
                _ => self.layer(layer, &x)?,
            };
        }
        Ok(x)
    }

    fn layer(&self, layer: &Layer, x: &Tensor) -> Result<Tensor> {
        let result = match layer {
            Layer::Tokens { .. } | Layer::TextTokens { .. } | Layer::Attention { .. } => {
                return self.transformer_layer(layer, x);
            }
            Layer::Conv(conv) => return self.convolution(conv, x),
            Layer::Linear { name, .. } => return self.linear(x, (name, "weight"), (name, "bias")),
            Layer::LayerNorm { name, width } => {
                let (weight, bias) = (self.get(name, "weight")?, self.get(name, "bias")?);
                x.f_layer_norm(to_tensor_shape(&[*width])?, Some(weight), Some(bias), 1e-5, true)
            }
            Layer::Project { name, .. } => x.f_matmul(self.get("", name)?),
            Layer::FirstToken => x.f_select(1, 0),
            Layer::Gelu => x.f_gelu("none"),
            Layer::QuickGelu => x.f_mul_scalar(1.702).and_then(|mut scaled| scaled.f_sigmoid_()?.f_mul(x)),
            Layer::BatchNorm { name, epsilon, .. } => x.f_batch_norm(
                Some(self.get(name, "weight")?),
                Some(self.get(name, "bias")?),
                Some(self.get(name, "running_mean")?),
                Some(self.get(name, "running_var")?),
                // One value of a channel has no unbiased variance.
                self.batch_statistics && x.numel() > x.size().get(1).map_or(0, |&channels| channels.saturating_as()),
                BATCH_MOMENTUM,
                *epsilon,
                true,
            ),
            Layer::Relu => x.f_relu(),
            Layer::Relu6 => x.f_relu6(),
            Layer::Tap { .. } => Ok(x.shallow_clone()),
            Layer::MaxPool { kernel, stride, padding, ceil } => x.f_max_pool2d(*kernel, *stride, *padding, 1, *ceil),
            Layer::AveragePool3 => x.f_avg_pool2d(3, 1, 1, false, false, None),
            Layer::GridAverage(side) => means_of_cells(x, *side),
            Layer::Flatten => x.f_flatten(1, -1),
            Layer::Scale(factor) => x.f_mul_scalar(*factor),
            Layer::GlobalAverage => x.f_adaptive_avg_pool2d([1, 1]).and_then(|averages| averages.f_flatten(1, 3)),
            Layer::Concat(branches) => Tensor::f_cat(&self.branches(branches, x)?, 1),
            Layer::Sum(branches) => {
                let mut results = self.branches(branches, x)?.into_iter();
                let first = results.next().ok_or_else(|| Error::internal("a sum of no branches"))?;
                results.try_fold(first, |sum, branch| sum.f_add(&branch))
            }
        };
        result.map_err(|error| libtorch_error(&error))
    }

    fn convolution(&self, conv: &Convolution, x: &Tensor) -> Result<Tensor> {
        let Convolution { name, stride, padding: (vertical, horizontal), groups, bias, .. } = conv;
        let products = self.products.as_deref();
        if let Some(layer) = products.and_then(|products| products.layers.get(&parameter_name(name, "weight"))) {
            return apply_packed_to_pixels(layer, *stride, x);
        }
        let bias = bias.then(|| self.get(name, "bias")).transpose()?;
        let groups = i64::try_from(*groups).map_err(|_| Error::internal("a convolution of 2⁶³ groups"))?;
        let (weight, padding) = (self.get(name, "weight")?, [*vertical, *horizontal]);
        let computed = match products.map_or(Kind::Float, PackedProducts::kind) {
            Kind::Float => x.f_conv2d(weight, bias, *stride, padding, 1, groups),
            kind => {
                let bias = bias.map(|bias| bias.f_to_kind(kind)).transpose();
                bias.and_then(|bias| {
                    x.f_to_kind(kind)?
                        .f_conv2d(weight, bias.as_ref(), *stride, padding, 1, groups)?
                        .f_to_kind(Kind::Float)
                })
            }
        };
        computed.map_err(|error| libtorch_error(&error))
    }

    /// x · wᵀ + bias over the last dimension, from the parameters of these names, each a layer and a part of it.
    pub(super) fn linear(&self, x: &Tensor, weight: (&str, &str), bias: (&str, &str)) -> Result<Tensor> {
        let products = self.products.as_deref();
        if let Some(layer) = products.and_then(|products| products.layers.get(&parameter_name(weight.0, weight.1))) {
            return apply_packed(layer, x);
        }
        let (weight, bias) = (self.get(weight.0, weight.1)?, self.get(bias.0, bias.1)?);
        let computed = match products.map_or(Kind::Float, PackedProducts::kind) {
            Kind::Float => x.f_linear(weight, Some(bias)),
            kind => x.f_to_kind(kind).and_then(|x| {
                x.f_linear(&weight.f_to_kind(kind)?, None::<&Tensor>)?.f_to_kind(Kind::Float)?.f_add(bias)
            }),
        };
        computed.map_err(|error| libtorch_error(&error))
    }

    fn branches(&self, branches: &[Vec<Layer>], x: &Tensor) -> Result<Vec<Tensor>> {
        branches.iter().map(|branch| self.forward(branch, x.shallow_clone())).collect()
    }

    pub(super) fn get(&self, layer: &str, what: &str) -> Result<&Tensor> {
        let name = parameter_name(layer, what);
        self.parameters.get(&name).ok_or_else(|| Error::internal(format!("the CNN has no parameter `{name}`")))
    }
}

/// Error for a file with the weights of another network, or with a model; `None` if the file is neither.
fn other_weights_error(architecture: &Architecture, bytes: &[u8]) -> Option<Error> {
    let file = safetensors_file::parse(bytes).ok()?;
    let tensors = file.tensors();
    if tensors.iter().any(|(name, _)| name.starts_with(MODEL_PREFIX)) {
        return Some(
            Error::data("this is a model of a training with `finetune`, expected the weights of a CNN")
                .hint("`extract` uses the CNN of a model with `weights = { model = \"STAGE.model\" }`"),
        );
    }
    let shapes = tensors.iter().filter(|(name, _)| !FilePart::Whole.is_unneeded(name));
    let found = Network::recognize(&shapes.map(|(name, view)| (name.clone(), view.shape().to_vec())).collect())?;
    let expected = Network::ALL.iter().find(|(network, _)| network.architecture() == *architecture);
    let (_, expected) = expected.filter(|(_, expected)| *expected != found)?;
    Some(
        Error::data(format!("these look like weights of {found}, expected those of {expected}"))
            .hint(format!("set `network = \"{found}\"`, or give a file with weights of {expected}")),
    )
}

fn clone_entry((name, tensor): (&String, &Tensor)) -> (String, Tensor) {
    (name.clone(), tensor.shallow_clone())
}

// Random initial weights, from the distributions of torchvision.
//
// The generator is [`Rng`], so a seed gives the same weights with every version of libtorch. Parameter `i` of a network
// uses the stream (seed, i).

/// Draws the values of parameter `index`, row-major.
fn draw_parameter(parameter: &NetworkParameterSpec, seed: u64, index: u64) -> Vec<f32> {
    let mut rng = Rng::new(seed, &[index]);
    let count = parameter.shape.iter().product();
    let fan_out = parameter.shape.first().unwrap_or(&1) * parameter.shape.iter().skip(2).product::<usize>();
    match parameter.init {
        NetworkInit::Constant(value) => vec![value; count],
        NetworkInit::UniformFanIn(gain) => {
            let bound = (gain / float(parameter.fan_in)).sqrt();
            (0..count).map(|_| to_f32((2.0 * rng.uniform() - 1.0) * bound)).collect()
        }
        NetworkInit::NormalFanOut => normal(&mut rng, (2.0 / float(fan_out)).sqrt(), count),
        NetworkInit::Normal(deviation) => normal(&mut rng, deviation, count),
    }
}

/// Draws normal random numbers.
fn normal(rng: &mut Rng, deviation: f64, count: usize) -> Vec<f32> {
    let mut values = Vec::with_capacity(count + 1);
    while values.len() < count {
        values.extend(rng.normal_pair(deviation).map(to_f32));
    }
    values.truncate(count);
    values
}

#[expect(clippy::cast_precision_loss, reason = "fans are far below 2^53")]
fn float(count: usize) -> f64 {
    count as f64
}

#[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
fn to_f32(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cells of a side of 3 in two parts are 0-1 and 1-2, as those of `AdaptiveAvgPool2d`.
    #[test]
    fn a_grid_has_the_means_of_its_cells_row_by_row() {
        let maps = Tensor::from_slice(&[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).view([1, 1, 3, 3]);
        let maps = Tensor::cat(&[&maps, &(&maps * 10.0)], 1);
        let cells = Vec::<f32>::try_from(grid(&maps, 2).expect("a grid").contiguous().view(-1)).expect("f32");
        assert_eq!(cells, [2.0, 20.0, 3.0, 30.0, 5.0, 50.0, 6.0, 60.0]);
        let uneven = Tensor::rand([2, 3, 8, 5], (Kind::Double, tch::Device::Cpu));
        let difference = means_by_products(&uneven, 3).expect("means") - uneven.adaptive_avg_pool2d([3, 3]);
        assert!(difference.abs().max().double_value(&[]) < 1e-14, "{difference}");
        let same = grid(&maps, 3).expect("a grid");
        assert_eq!((same.size(), same.double_value(&[0, 5, 1])), (vec![1, 9, 2], 50.0));
        let error = grid(&maps, 4).expect_err("too fine").to_string();
        assert_eq!(error, "the feature maps have 3 × 3 cells, expected a grid of 4 × 4");
    }

    fn moments(values: &[f32]) -> (f64, f64, f64) {
        let n = float(values.len());
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let variance = values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n;
        let largest = values.iter().map(|&v| f64::from(v).abs()).fold(0.0, f64::max);
        (mean, variance.sqrt(), largest)
    }

    fn drawn(parameters: &[NetworkParameterSpec], name: &str) -> Vec<f32> {
        let index = parameters.iter().position(|parameter| parameter.name == name).unwrap();
        draw_parameter(&parameters[index], 7, u64::try_from(index).unwrap())
    }

    /// Standard deviations and bounds derived by hand from torchvision's `__init__`.
    #[test]
    fn deviations_and_bounds_are_those_of_torchvision() {
        let parameters = Network::ResNet18.architecture().parameters();
        // √(2 / (128 · 3 · 3)).
        let (mean, deviation, _) = moments(&drawn(&parameters, "layer2.0.conv1.weight"));
        assert!(mean.abs() < 1e-3 && (deviation / 0.041_667 - 1.0).abs() < 0.02, "{mean} {deviation}");
        // ±1 / √512, uniform: deviation bound / √3.
        let (_, deviation, largest) = moments(&drawn(&parameters, "fc.weight"));
        assert!(largest <= 0.044_195 && (deviation / 0.025_516 - 1.0).abs() < 0.02, "{deviation} {largest}");
        assert_eq!(drawn(&parameters, "bn1.running_var"), vec![1.0; 64]);

        let parameters = Network::SqueezeNet1_0.architecture().parameters();
        // ±√(6 / (3 · 7 · 7)).
        let (_, deviation, largest) = moments(&drawn(&parameters, "features.0.weight"));
        assert!(largest <= 0.202_031 && (deviation / 0.116_642 - 1.0).abs() < 0.02, "{deviation} {largest}");
        let (_, deviation, _) = moments(&drawn(&parameters, "classifier.1.weight"));
        assert!((deviation / 0.01 - 1.0).abs() < 0.02, "{deviation}");
        assert_eq!(drawn(&parameters, "classifier.1.bias"), vec![0.0; 1000]);
    }

    #[test]
    fn weights_are_a_function_of_the_seed() {
        let parameters = Network::SqueezeNet1_0.architecture().parameters();
        let draw = |seed, index| draw_parameter(&parameters[index], seed, u64::try_from(index).unwrap());
        assert_eq!(draw(1, 0), draw(1, 0));
        assert_ne!(draw(1, 0), draw(2, 0));
    }
}
