//! A network with its weights: pictures in, features or scores out.

use std::collections::HashMap;

use tch::Tensor;

use super::architecture::{Architecture, Layer};
use super::random;
use crate::error::{Error, Result};
use crate::model::named::Named;
use crate::model::tensor_file::{refused, sizes};
use crate::model::weights::{self, Wanted};

/// Added to a variance before its root, as torchvision's `BatchNorm2d` does.
const EPSILON: f64 = 1e-5;

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The mean of every feature map.
    Average,
    /// The scores of the classes.
    Scores,
}

/// Before the names of a network's parameters in a model.
pub const IN_MODEL: &str = "img_enc.cnn.";

/// A network with its weights.
#[derive(Debug)]
pub struct Cnn {
    architecture: Architecture,
    parameters: HashMap<String, Tensor>,
    device: tch::Device,
}

impl Cnn {
    /// The network with the weights of a safetensors file with torchvision's names. `num_batches_tracked`, which
    /// inference does not use, may be there.
    ///
    /// # Errors
    /// As [`weights::read`], or no room on `device`.
    pub fn from_file(architecture: Architecture, bytes: &[u8], device: tch::Device) -> Result<Self> {
        let wanted: Vec<Wanted> = architecture
            .parameters()
            .into_iter()
            .map(|parameter| Wanted { name: parameter.name, shape: parameter.shape })
            .collect();
        let parameters = weights::read(bytes, &wanted, |name| name.ends_with(".num_batches_tracked"))?;
        Self::new(architecture, parameters, device)
    }

    /// The network that a model was trained with, from its `model.safetensors`.
    ///
    /// # Errors
    /// Bytes that are no model, or one without a network such as this.
    pub fn from_model(architecture: Architecture, bytes: &[u8], device: tch::Device) -> Result<Self> {
        let mut named = Named::from_bytes(bytes)?;
        if !named.tensors.keys().any(|name| name.starts_with(IN_MODEL)) {
            return Err(Error::data("the model has no network for pictures: it was trained on features")
                .hint("weights of a model are those of a training with `pictures`"));
        }
        let wanted = architecture.parameters().into_iter();
        let parameters = wanted.map(|wanted| named.take(&format!("{IN_MODEL}{}", wanted.name)));
        Self::from_parameters(architecture, &parameters.collect::<Result<Vec<_>>>()?, device)
    }

    /// The network with random weights; the same seed gives the same weights.
    ///
    /// # Errors
    /// No room on `device`.
    pub fn random(architecture: Architecture, seed: u64, device: tch::Device) -> Result<Self> {
        let mut parameters = HashMap::new();
        for (index, parameter) in (0..).zip(architecture.parameters()) {
            let values = random::values(&parameter, seed, index);
            let shape = sizes(&parameter.shape)?;
            let tensor = Tensor::f_from_slice(&values)
                .and_then(|tensor| tensor.f_reshape(&shape))
                .map_err(|error| refused(&error))?;
            parameters.insert(parameter.name, tensor);
        }
        Self::new(architecture, parameters, device)
    }

    fn new(architecture: Architecture, parameters: HashMap<String, Tensor>, device: tch::Device) -> Result<Self> {
        let parameters = parameters
            .into_iter()
            .map(|(name, tensor)| Ok((name, tensor.f_to_device(device).map_err(|error| refused(&error))?)))
            .collect::<Result<_>>()?;
        Ok(Self { architecture, parameters, device })
    }

    /// The network with these parameters, in the order of [`Architecture::parameters`], which it shares: what changes them
    /// changes it.
    ///
    /// # Errors
    /// A shape that the network does not want.
    pub fn from_parameters(architecture: Architecture, parameters: &[Tensor], device: tch::Device) -> Result<Self> {
        let mut named = HashMap::new();
        for (wanted, tensor) in architecture.parameters().into_iter().zip(parameters) {
            if tensor.size() != sizes(&wanted.shape)? {
                let (name, got, shape) = (&wanted.name, tensor.size(), &wanted.shape);
                return Err(Error::data(format!("`{name}` is {got:?}, wanted {shape:?}")));
            }
            named.insert(wanted.name, tensor.shallow_clone());
        }
        Self::new(architecture, named, device)
    }

    /// The parameters with their names, in the order of [`Architecture::parameters`].
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, Tensor)> {
        let wanted = self.architecture.parameters().into_iter();
        wanted.filter_map(|wanted| self.parameters.get_key_value(&wanted.name)).map(own).collect()
    }

    /// Values of the mean of the feature maps.
    #[must_use]
    pub fn features(&self) -> usize {
        self.architecture.width
    }

    /// The means of the feature maps of pictures `[n, 3, side, side]`: `[n, width]`.
    ///
    /// # Errors
    /// Pictures that are too small for the network.
    pub fn average(&self, pictures: &Tensor) -> Result<Tensor> {
        let maps = self.forward(&self.architecture.body, pictures.shallow_clone())?;
        self.forward(&[Layer::GlobalAverage], maps)
    }

    /// The same network for another thread. The weights are shared, not copied.
    #[must_use]
    pub fn share(&self) -> Self {
        self.map(|_, tensor| tensor.shallow_clone())
    }

    /// The same network with other tensors in place of those of these names.
    pub(super) fn map(&self, change: impl Fn(&str, &Tensor) -> Tensor) -> Self {
        let parameters = self.parameters.iter().map(|(name, tensor)| (name.clone(), change(name, tensor))).collect();
        Self { architecture: self.architecture.clone(), parameters, device: self.device }
    }

    /// Values that one picture gives.
    #[must_use]
    pub fn width(&self, output: Output) -> usize {
        match output {
            Output::Average => self.architecture.width,
            Output::Scores => self.architecture.classes,
        }
    }

    /// Computes `output` of square pictures, which lie in `pixels` one after the other: 3 channels × `side` × `side`,
    /// normalised. The result has [`Self::width`] values a picture, row-major.
    ///
    /// # Errors
    /// `pixels` are no whole pictures, the pictures are too small for the network, or there is no room on the device.
    pub fn compute(&self, pixels: &[f32], side: usize, output: Output) -> Result<Vec<f32>> {
        let one = 3 * side * side;
        if one == 0 || !pixels.len().is_multiple_of(one) {
            return Err(Error::internal(format!("{} values are no whole pictures of side {side}", pixels.len())));
        }
        let count = pixels.len() / one;
        if count == 0 {
            return Ok(Vec::new());
        }
        let shape = sizes(&[count, 3, side, side])?;
        tch::no_grad(|| {
            let input = Tensor::f_from_slice(pixels)
                .and_then(|tensor| tensor.f_reshape(&shape)?.f_to_device(self.device))
                .map_err(|error| refused(&error))?;
            let maps = self.forward(&self.architecture.body, input)?;
            let result = match output {
                Output::Average => self.forward(&[Layer::GlobalAverage], maps)?,
                Output::Scores => self.forward(&self.architecture.head, maps)?,
            };
            let mut values = vec![0.0; count * self.width(output)];
            if result.numel() != values.len() {
                return Err(Error::internal(format!("the network gave {:?} for {count} pictures", result.size())));
            }
            result
                .f_to_device(tch::Device::Cpu)
                .and_then(|tensor| tensor.f_contiguous()?.f_copy_data(&mut values, count * self.width(output)))
                .map_err(|error| refused(&error))?;
            Ok(values)
        })
    }

    fn forward(&self, layers: &[Layer], mut x: Tensor) -> Result<Tensor> {
        for layer in layers {
            x = match layer {
                // In place: what comes before an activation is always new, and used by nothing else.
                Layer::Relu => x.f_relu_().map_err(|error| refused(&error))?,
                _ => self.layer(layer, &x)?,
            };
        }
        Ok(x)
    }

    fn layer(&self, layer: &Layer, x: &Tensor) -> Result<Tensor> {
        let result = match layer {
            Layer::Conv { name, stride, padding, bias, .. } => {
                let bias = bias.then(|| self.get(name, "bias")).transpose()?;
                x.f_conv2d(self.get(name, "weight")?, bias, *stride, *padding, 1, 1)
            }
            Layer::BatchNorm { name, .. } => x.f_batch_norm(
                Some(self.get(name, "weight")?),
                Some(self.get(name, "bias")?),
                Some(self.get(name, "running_mean")?),
                Some(self.get(name, "running_var")?),
                false,
                0.0,
                EPSILON,
                true,
            ),
            Layer::Relu => x.f_relu(),
            Layer::MaxPool { padding, ceil } => x.f_max_pool2d(3, 2, *padding, 1, *ceil),
            Layer::GlobalAverage => x.f_adaptive_avg_pool2d([1, 1]).and_then(|averages| averages.f_flatten(1, 3)),
            Layer::Linear { name, .. } => x.f_linear(self.get(name, "weight")?, Some(self.get(name, "bias")?)),
            Layer::Concat(branches) => Tensor::f_cat(&self.branches(branches, x)?, 1),
            Layer::Sum(branches) => {
                let mut results = self.branches(branches, x)?.into_iter();
                let first = results.next().ok_or_else(|| Error::internal("a sum of no branches"))?;
                results.try_fold(first, |sum, branch| sum.f_add(&branch))
            }
        };
        result.map_err(|error| refused(&error))
    }

    fn branches(&self, branches: &[Vec<Layer>], x: &Tensor) -> Result<Vec<Tensor>> {
        branches.iter().map(|branch| self.forward(branch, x.shallow_clone())).collect()
    }

    fn get(&self, layer: &str, what: &str) -> Result<&Tensor> {
        let name = format!("{layer}.{what}");
        self.parameters.get(&name).ok_or_else(|| Error::internal(format!("the network has no parameter `{name}`")))
    }
}

fn own((name, tensor): (&String, &Tensor)) -> (String, Tensor) {
    (name.clone(), tensor.shallow_clone())
}
