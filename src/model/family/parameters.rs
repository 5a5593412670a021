//! Parameters of a model of any family: specifications, allowed values, values, and updates by a forward pass.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use tch::{Device, Kind, Tensor};

use crate::networks::{ImageNetwork, MODEL_PREFIX, NetworkTape};
use crate::safetensors_file::NamedTensors;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::random::Rng;
use pairloom_spec::input_spec::InputSpec;

/// Random stream of the initial weights, distinct from other streams of the same seed.
const WEIGHTS: u64 = 0x7765_6967_6874;

/// Specification of a parameter of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterSpec {
    /// Name, as in the published checkpoints of the family.
    pub name: String,
    /// Sizes of its dimensions.
    pub shape: Vec<i64>,
    /// Initial values.
    pub init: ParameterInit,
    /// True if training updates it.
    pub trainable: bool,
    /// Values that it can have.
    pub allowed: AllowedValues,
}

/// Initial values of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ParameterInit {
    /// Uniform distribution over ±bound.
    Uniform(f64),
    /// Normal distribution with this standard deviation.
    Normal(f64),
    /// A constant.
    Constant(f64),
}

impl ParameterSpec {
    /// Creates the specification of a trainable parameter.
    #[must_use]
    pub fn new(name: &str, shape: &[i64], init: ParameterInit) -> Self {
        let allowed = AllowedValues::default();
        Self { name: name.to_owned(), shape: shape.to_vec(), init, trainable: true, allowed }
    }

    /// Creates the specifications of a linear layer: `name.weight`, `[output, input]`, U(±√(6/(input + output)))
    /// (Xavier), and `name.bias`, zero.
    #[must_use]
    pub fn linear(name: &str, output: i64, input: i64) -> [Self; 2] {
        #[expect(clippy::cast_precision_loss, reason = "widths are below 2^31")]
        let bound = (6.0 / (input + output) as f64).sqrt();
        [
            Self::new(&format!("{name}.weight"), &[output, input], ParameterInit::Uniform(bound)),
            Self::new(&format!("{name}.bias"), &[output], ParameterInit::Uniform(0.0)),
        ]
    }

    /// Creates the specifications of one direction of a GRU from `input` to `state` values, U(±1/√state), with the names
    /// of [`gru_parameter_names`].
    #[must_use]
    pub fn gru(name: &str, suffix: &str, input: i64, state: i64) -> [Self; 4] {
        #[expect(clippy::cast_precision_loss, reason = "widths are below 2^31")]
        let init = ParameterInit::Uniform(1.0 / (state as f64).sqrt());
        let [weight_ih, weight_hh, bias_ih, bias_hh] = gru_parameter_names(name, suffix);
        let gates = 3 * state;
        [
            Self::new(&weight_ih, &[gates, input], init),
            Self::new(&weight_hh, &[gates, state], init),
            Self::new(&bias_ih, &[gates], init),
            Self::new(&bias_hh, &[gates], init),
        ]
    }
}

/// Ends of the names of a GRU's parameters in each of its directions, one or two.
pub fn gru_suffixes(directions: usize) -> impl Iterator<Item = &'static str> {
    ["", "_reverse"].into_iter().take(directions)
}

/// Names of the parameters of one direction of the GRU `name`, as in PyTorch: `weight_ih_l0`, `weight_hh_l0`,
/// `bias_ih_l0` and `bias_hh_l0`, each after `name.` and before `suffix`.
#[must_use]
pub fn gru_parameter_names(name: &str, suffix: &str) -> [String; 4] {
    ["weight_ih", "weight_hh", "bias_ih", "bias_hh"].map(|part| format!("{name}.{part}_l0{suffix}"))
}

/// Converts a width to libtorch's type.
///
/// # Errors
/// 0, or 2³¹ and more, which no tensor can have.
pub fn tensor_width(width: usize) -> Result<i64> {
    i64::try_from(width)
        .ok()
        .filter(|width| (1..1 << 31).contains(width))
        .ok_or_else(|| Error::data(format!("a model cannot have a width of {width}")))
}

/// Parameters of a model on one device, and its CNN if it has one.
#[derive(Debug)]
pub struct Parameters {
    specs: Vec<ParameterSpec>,
    /// Tensors in the order of the specifications, then those of `network`, which shares them.
    tensors: Vec<Tensor>,
    network: Option<ImageNetwork>,
}

impl Parameters {
    /// Draws initial parameters. The values depend on the specifications, `input_spec` and `seed` only.
    pub fn random(specs: Vec<ParameterSpec>, input_spec: &InputSpec, seed: u64, device: Device) -> Result<Self> {
        let mut tensors = Vec::new();
        for (stream, ParameterSpec { shape, init, .. }) in (0..).zip(&specs) {
            let count: i64 = shape.iter().product();
            let mut rng = Rng::new(seed, &[WEIGHTS, stream]);
            #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
            let value = |_: i64| match init {
                ParameterInit::Uniform(bound) => (bound * (2.0 * rng.uniform() - 1.0)) as f32,
                ParameterInit::Normal(deviation) => rng.normal_pair(*deviation)[0] as f32,
                ParameterInit::Constant(value) => *value as f32,
            };
            let values: Vec<f32> = (0..count).map(value).collect();
            tensors.push(Tensor::from_slice(&values).view(shape.as_slice()).to_device(device));
        }
        if let Some(cnn) = input_spec.pictures {
            let network = ImageNetwork::random(cnn.network.backbone(), seed, device)?;
            tensors.extend(network.parameters().into_iter().map(|(_, tensor)| tensor));
        }
        Self::new(specs, input_spec, tensors)
    }

    /// Takes over tensors: the model's own in the order of the specifications, then those of the CNN.
    ///
    /// # Errors
    /// A wrong number of tensors, a wrong shape, a type other than f32 or f64, or a CNN whose features do not have the
    /// width of `input_spec`.
    pub fn new(specs: Vec<ParameterSpec>, input_spec: &InputSpec, tensors: Vec<Tensor>) -> Result<Self> {
        let body = input_spec.pictures.map(|cnn| cnn.network.backbone());
        let expected = specs.len() + body.as_ref().map_or(0, |body| body.parameters().len());
        if tensors.len() != expected {
            return Err(Error::data(format!("got {} parameters of a model, expected {expected}", tensors.len())));
        }
        let kind = tensors[0].kind();
        for (ParameterSpec { name, shape, .. }, tensor) in specs.iter().zip(&tensors) {
            if tensor.size() != *shape {
                return Err(Error::data(format!("`{name}` is {:?}, expected {shape:?}", tensor.size())));
            }
            if tensor.kind() != kind || !matches!(kind, Kind::Float | Kind::Double) {
                return Err(Error::data(format!("`{name}` holds {:?}, expected Float", tensor.kind())));
            }
        }
        let device = tensors[0].device();
        let network =
            body.map(|body| ImageNetwork::from_parameters(body, &tensors[specs.len()..], device)).transpose()?;
        if let Some(features) =
            network.as_ref().map(ImageNetwork::feature_width).filter(|&features| features != input_spec.image)
        {
            let image = input_spec.image;
            return Err(Error::data(format!("the CNN has features of width {features}, expected {image}")));
        }
        Ok(Self { specs, tensors, network })
    }

    /// Takes the parameters out of `named`, where their names begin with `prefix`.
    ///
    /// # Errors
    /// As [`Parameters::new`], or a parameter is missing, or has values that are not allowed.
    pub fn from_named_tensors(
        specs: Vec<ParameterSpec>,
        input_spec: &InputSpec,
        named: &mut NamedTensors,
        prefix: &str,
        device: Device,
    ) -> Result<Self> {
        let own_names = specs.iter().map(|parameter| parameter.name.clone());
        let network_names = input_spec.pictures.iter().flat_map(|cnn| cnn.network.backbone().parameters());
        let names = own_names.chain(network_names.map(|parameter| format!("{MODEL_PREFIX}{}", parameter.name)));
        let tensors = names.map(|name| Ok(named.take(&format!("{prefix}{name}"))?.to_device(device)));
        let tensors = tensors.collect::<Result<Vec<Tensor>>>()?;
        let loaded = Self::new(specs, input_spec, tensors)?;
        let checked = loaded.specs.iter().zip(&loaded.tensors);
        let mistakes: Vec<String> =
            checked.filter_map(|(spec, tensor)| spec.allowed.mistake(&spec.name, tensor)).collect();
        if mistakes.is_empty() { Ok(loaded) } else { Err(Error::data(mistakes.join("; "))) }
    }

    /// Names of the parameters, in the order of [`Parameters::tensors`].
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let network_names =
            self.network.iter().flat_map(ImageNetwork::parameters).map(|(name, _)| format!("{MODEL_PREFIX}{name}"));
        self.specs.iter().map(|parameter| parameter.name.clone()).chain(network_names).collect()
    }

    /// All parameters: the model's own, then those of its CNN.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Parameters of the model itself, without those of its CNN, in the order of their specifications.
    pub fn own_tensors(&self) -> &[Tensor] {
        &self.tensors[..self.specs.len()]
    }

    /// Finds one of the model's own parameters by name.
    pub fn get(&self, name: &str) -> Result<&Tensor> {
        let index = self.index_of(name);
        index
            .map(|index| &self.tensors[index])
            .ok_or_else(|| Error::internal(format!("there is no parameter `{name}`")))
    }

    /// Index in [`Parameters::tensors`] of one of the model's own parameters.
    #[must_use]
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.specs.iter().position(|parameter| parameter.name == name)
    }

    /// True if the parameter with this index is trained, `false` also without such a parameter of the model itself.
    #[must_use]
    pub fn is_trainable(&self, index: usize) -> bool {
        self.specs.get(index).is_some_and(|parameter| parameter.trainable)
    }

    /// CNN that is fine-tuned with the model.
    #[must_use]
    pub fn network(&self) -> Option<&ImageNetwork> {
        self.network.as_ref()
    }

    /// Trainable parameters with their names, in the order of [`Parameters::tensors`].
    #[must_use]
    pub fn trainable(&self) -> Vec<(String, Tensor)> {
        let all = self.names().into_iter().zip(&self.tensors).enumerate();
        let trained = all.filter(|(index, (name, _))| match self.specs.get(*index) {
            Some(spec) => spec.trainable,
            None => ImageNetwork::is_trainable(name),
        });
        trained.map(|(_, (name, tensor))| (name, tensor.shallow_clone())).collect()
    }

    /// Returns the parameters as leaves of a new graph; the trainable ones require a gradient. The values are shared.
    pub fn detached_leaves(&self, input_spec: &InputSpec) -> Result<Self> {
        let trained: std::collections::HashSet<String> = self.trainable().into_iter().map(|(name, _)| name).collect();
        let leaves = self.names().into_iter().zip(&self.tensors);
        let leaves = leaves.map(|(name, tensor)| tensor.detach().set_requires_grad(trained.contains(&name)));
        Self::new(self.specs.clone(), input_spec, leaves.collect())
    }

    /// Device of the parameters.
    #[must_use]
    pub fn device(&self) -> Device {
        self.tensors[0].device()
    }

    /// Data type of the parameters.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.tensors[0].kind()
    }

    /// Parameters as named tensors, with `prefix` before each name.
    #[must_use]
    pub fn to_named_tensors(&self, prefix: &str) -> NamedTensors {
        let names = self.names().into_iter().map(|name| format!("{prefix}{name}"));
        NamedTensors { tensors: names.zip(self.tensors.iter().map(Tensor::shallow_clone)).collect(), text: None }
    }

    /// Serialises the parameters as a safetensors file.
    ///
    /// # Errors
    /// Too large for memory.
    pub fn to_bytes(&self) -> Result<Bytes> {
        self.to_named_tensors("").to_bytes()
    }

    /// Copies the parameters of another model that have the same names. Returns the number of those that are not of the
    /// CNN.
    ///
    /// # Errors
    /// Bytes that are not a model, or a parameter of another shape.
    pub fn copy_matching(&self, other: &[u8]) -> Result<usize> {
        let other = NamedTensors::from_bytes(other)?;
        let mut copied = 0;
        for (index, (name, own)) in self.names().into_iter().zip(&self.tensors).enumerate() {
            let Some(source) = other.tensors.get(&name) else { continue };
            copied += usize::from(index < self.specs.len());
            if source.size() != own.size() {
                return Err(Error::data(format!("`{name}` is {:?}, expected {:?}", source.size(), own.size())));
            }
            tch::no_grad(|| own.shallow_clone().copy_(source));
        }
        Ok(copied)
    }

    /// Replaces running statistics by those after a step.
    pub fn set_buffers(&self, buffers: BufferUpdates) {
        tch::no_grad(|| {
            for (index, value) in buffers {
                self.tensors[index].shallow_clone().copy_(&value);
            }
        });
    }

    /// Replaces every row of the parameter `name` for whose index `row` returns values.
    ///
    /// # Errors
    /// No such parameter, or values of another width.
    pub fn set_rows<'v>(&self, name: &str, row: impl Fn(usize) -> Option<&'v [f32]>) -> Result<()> {
        let rows = self.get(name)?;
        let (count, width) = rows.size2().map_err(|_| Error::internal(format!("`{name}` has no rows")))?;
        for number in 0..count {
            let Some(values) = usize::try_from(number).ok().and_then(&row) else { continue };
            if i64::try_from(values.len()) != Ok(width) {
                return Err(Error::data(format!(
                    "got a row of {} values for `{name}`, expected {width}",
                    values.len()
                )));
            }
            tch::no_grad(|| rows.get(number).copy_(&Tensor::from_slice(values)));
        }
        Ok(())
    }

    /// Replaces the weights of the CNN by those of a safetensors file.
    ///
    /// # Errors
    /// As [`ImageNetwork::from_file`], or the model has no CNN.
    pub fn set_network_weights(&self, input_spec: &InputSpec, file: &[u8]) -> Result<()> {
        let cnn = input_spec.pictures.ok_or_else(|| Error::internal("the model has no CNN"))?;
        let network = ImageNetwork::from_file(cnn.network.architecture(), file, self.device())?;
        let weights: HashMap<String, Tensor> = network.parameters().into_iter().collect();
        tch::no_grad(|| {
            for (name, mut own) in self.network.iter().flat_map(ImageNetwork::parameters) {
                let missing = || Error::internal(format!("the CNN has no parameter `{name}`"));
                own.copy_(weights.get(&name).ok_or_else(missing)?);
            }
            Ok(())
        })
    }

    /// Computes the L2-normalised features of raw images, given as rows of pixels, with the tape for their gradient.
    /// `None` for a model without a CNN.
    pub fn cnn_features_with_tape(&self, rows: &Tensor, input_spec: &InputSpec) -> Result<Option<NetworkTape>> {
        let uses_batch_statistics = input_spec.pictures.is_some_and(|cnn| cnn.batch_statistics);
        let forward =
            |network: &ImageNetwork| network.forward_with_tape(&to_images(rows, input_spec)?, uses_batch_statistics);
        self.network.as_ref().map(forward).transpose()
    }

    /// Takes the new statistics of the CNN's batch normalisation out of a tape.
    #[must_use]
    pub fn cnn_statistics(&self, tape: &mut NetworkTape) -> BufferUpdates {
        let statistics = std::mem::take(&mut tape.statistics).into_iter();
        statistics.map(|(number, value)| (self.specs.len() + number, value)).collect()
    }

    /// Returns the features that the encoder of images reads: the L2-normalised features of raw images if the model has
    /// a CNN, and `rows` itself otherwise.
    pub fn image_features(&self, rows: Tensor, input_spec: &InputSpec) -> Result<Tensor> {
        match &self.network {
            Some(network) => network.normalized_features(&to_images(&rows, input_spec)?),
            None => Ok(rows),
        }
    }
}

/// Reshapes rows of pixels to images, `[n, 3, side, side]`.
fn to_images(rows: &Tensor, input_spec: &InputSpec) -> Result<Tensor> {
    let side = input_spec.pictures.and_then(|cnn| i64::try_from(cnn.side).ok());
    let side = side.ok_or_else(|| Error::internal("the model has no CNN"))?;
    Ok(rows.view([-1, 3, side, side]))
}

/// Values that a parameter can have. Training never leaves them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AllowedValues {
    /// All finite numbers.
    #[default]
    Finite,
    /// Numbers from 0 on, such as variances.
    NotNegative,
    /// Whole numbers from −1 to `count` − 1: indices, and −1 for none.
    IndexOrNone {
        /// Number of things that are counted.
        count: i64,
    },
    /// Rows, each with a finite sum above 0.
    PositiveRowSums,
}

impl AllowedValues {
    /// Mistake of the parameter `name`, with the first row that is wrong.
    #[must_use]
    pub fn mistake(self, name: &str, values: &Tensor) -> Option<String> {
        let values = values.to_kind(Kind::Double);
        let (values, allowed) = match self {
            Self::Finite => return None,
            Self::NotNegative => (values.shallow_clone(), values.ge(0.0)),
            Self::IndexOrNone { count } => {
                let whole = values.floor().eq_tensor(&values);
                let in_range = values.ge(-1.0).logical_and(&values.lt(count));
                (values, whole.logical_and(&in_range))
            }
            Self::PositiveRowSums => {
                let sums = values.sum_dim_intlist(1i64, false, None::<Kind>);
                let allowed = sums.gt(0.0).logical_and(&sums.isfinite());
                (sums, allowed)
            }
        };
        let wrong = allowed.reshape([-1]).logical_not().nonzero();
        if wrong.size()[0] == 0 {
            return None;
        }
        let row = wrong.int64_value(&[0, 0]);
        let got = values.reshape([-1]).double_value(&[row]);
        Some(match self {
            Self::PositiveRowSums => format!("row {row} of `{name}` has the sum {got}, expected more than 0"),
            Self::IndexOrNone { count } => {
                format!("row {row} of `{name}` holds {got}, expected a whole number from -1 to {}", count - 1)
            }
            Self::Finite | Self::NotNegative => format!("row {row} of `{name}` holds {got}, expected 0 or more"),
        })
    }
}

/// New values of parameters by their index in [`Parameters::tensors`].
pub type BufferUpdates = BTreeMap<usize, Tensor>;

/// Updates of a forward pass that is under way.
pub type BufferRecorder = RefCell<BufferUpdates>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wrong_row_is_named() {
        let indices = AllowedValues::IndexOrNone { count: 3 };
        let mistake = |allowed: AllowedValues, values: &[f32]| allowed.mistake("x", &Tensor::from_slice(values));
        assert_eq!(mistake(indices, &[-1.0, 0.0, 2.0]), None);
        for (wrong, got) in [(3.0, "3"), (9999.0, "9999"), (0.5, "0.5"), (-50.0, "-50"), (-1.5, "-1.5")] {
            let expected = format!("row 1 of `x` holds {got}, expected a whole number from -1 to 2");
            assert_eq!(mistake(indices, &[2.0, wrong, 7.0]), Some(expected));
        }
        assert_eq!(mistake(AllowedValues::NotNegative, &[0.0, 1.0]), None);
        let negative = mistake(AllowedValues::NotNegative, &[0.0, -0.25]);
        assert_eq!(negative.as_deref(), Some("row 1 of `x` holds -0.25, expected 0 or more"));
        assert_eq!(mistake(AllowedValues::Finite, &[-3.0]), None);
        let rows =
            |values: &[f32]| AllowedValues::PositiveRowSums.mistake("A", &Tensor::from_slice(values).view([-1, 2]));
        assert_eq!(rows(&[1.0, 0.0, -1.0, 2.0]), None);
        assert_eq!(rows(&[1.0, 0.0, 0.0, 0.0]).as_deref(), Some("row 1 of `A` has the sum 0, expected more than 0"));
        assert!(rows(&[1.0, -1.5]).is_some_and(|mistake| mistake.contains("the sum -0.5")));
    }
}
