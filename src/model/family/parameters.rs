//! The parameters of a model of any family.

use std::collections::HashMap;

use bytes::Bytes;
use tch::{Device, Kind, Tensor};

use super::data::Data;
use crate::error::{Error, Result};
use crate::kernels::sample::Sample;
use crate::model::cnn::{Cnn, IN_MODEL, Learning};
use crate::model::named::Named;

/// Keeps the stream of the weights apart from others of the same seed.
const WEIGHTS: u64 = 0x7765_6967_6874;

/// A parameter that a model wants.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Name, as in the published checkpoints of the family.
    pub name: String,
    /// Sizes of its dimensions.
    pub shape: Vec<i64>,
    /// Values before the first step.
    pub init: Init,
    /// True if training changes it.
    pub trained: bool,
}

/// Values of a parameter before the first step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// Drawn from U(±bound).
    Uniform(f64),
    /// One value for all.
    Constant(f64),
}

impl Parameter {
    /// A parameter that is trained.
    #[must_use]
    pub fn new(name: &str, shape: &[i64], init: Init) -> Self {
        Self { name: name.to_owned(), shape: shape.to_vec(), init, trained: true }
    }
}

/// A width as libtorch has it.
///
/// # Errors
/// 0, or 2³¹ and more: no tensor can have it.
pub fn width(width: usize) -> Result<i64> {
    i64::try_from(width)
        .ok()
        .filter(|width| (1..1 << 31).contains(width))
        .ok_or_else(|| Error::data(format!("a model cannot have a width of {width}")))
}

/// The parameters of a model, on one device, and the network that reads pictures where it has one.
#[derive(Debug)]
pub struct Parameters {
    described: Vec<Parameter>,
    /// In the order of `described`, then those of `network`, which shares them.
    tensors: Vec<Tensor>,
    network: Option<Cnn>,
}

impl Parameters {
    /// Parameters of a model that has learned nothing. The values depend on `described`, `data` and `seed` alone.
    ///
    /// # Errors
    /// As [`Parameters::new`].
    pub fn random(described: Vec<Parameter>, data: &Data, seed: u64, device: Device) -> Result<Self> {
        let mut tensors = Vec::new();
        for (stream, Parameter { shape, init, .. }) in (0..).zip(&described) {
            let count: i64 = shape.iter().product();
            let mut sample = Sample::new(seed, &[WEIGHTS, stream]);
            #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
            let value = |_: i64| match init {
                Init::Uniform(bound) => (bound * (2.0 * sample.unit() - 1.0)) as f32,
                Init::Constant(value) => *value as f32,
            };
            let values: Vec<f32> = (0..count).map(value).collect();
            tensors.push(Tensor::from_slice(&values).view(shape.as_slice()).to_device(device));
        }
        if let Some(pictures) = data.pictures {
            let network = Cnn::random(pictures.network.body(), seed, device)?;
            tensors.extend(network.parameters().into_iter().map(|(_, tensor)| tensor));
        }
        Self::new(described, data, tensors)
    }

    /// These tensors, in the order of `described`, and after them those of the network.
    ///
    /// # Errors
    /// Another number of tensors, another shape, a type other than f32 or f64, or a network whose features are not as wide
    /// as `data` says.
    pub fn new(described: Vec<Parameter>, data: &Data, tensors: Vec<Tensor>) -> Result<Self> {
        let body = data.pictures.map(|pictures| pictures.network.body());
        let wanted = described.len() + body.as_ref().map_or(0, |body| body.parameters().len());
        if tensors.len() != wanted {
            return Err(Error::data(format!("a model of {} parameters, wanted {wanted}", tensors.len())));
        }
        let kind = tensors[0].kind();
        for (Parameter { name, shape, .. }, tensor) in described.iter().zip(&tensors) {
            if tensor.size() != *shape {
                return Err(Error::data(format!("`{name}` is {:?}, wanted {shape:?}", tensor.size())));
            }
            if tensor.kind() != kind || !matches!(kind, Kind::Float | Kind::Double) {
                return Err(Error::data(format!("`{name}` holds {:?}, wanted Float", tensor.kind())));
            }
        }
        let device = tensors[0].device();
        let network = body.map(|body| Cnn::from_parameters(body, &tensors[described.len()..], device)).transpose()?;
        if let Some(features) = network.as_ref().map(Cnn::features).filter(|&features| features != data.image) {
            let image = data.image;
            return Err(Error::data(format!("a network with {features} features for images of width {image}")));
        }
        Ok(Self { described, tensors, network })
    }

    /// Parameters that stand in `named` under their names with `prefix`.
    ///
    /// # Errors
    /// As [`Parameters::new`]; one is missing.
    pub fn take(
        described: Vec<Parameter>,
        data: &Data,
        named: &mut Named,
        prefix: &str,
        device: Device,
    ) -> Result<Self> {
        let own = described.iter().map(|parameter| parameter.name.clone());
        let of_network = data.pictures.iter().flat_map(|pictures| pictures.network.body().parameters());
        let names = own.chain(of_network.map(|parameter| format!("{IN_MODEL}{}", parameter.name)));
        let tensors = names.map(|name| Ok(named.take(&format!("{prefix}{name}"))?.to_device(device)));
        let tensors = tensors.collect::<Result<Vec<Tensor>>>()?;
        Self::new(described, data, tensors)
    }

    /// Names, in the order of [`Parameters::tensors`].
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let of_network = self.network.iter().flat_map(Cnn::parameters).map(|(name, _)| format!("{IN_MODEL}{name}"));
        self.described.iter().map(|parameter| parameter.name.clone()).chain(of_network).collect()
    }

    /// All of them: the model's own, then those of its network.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The model's own, in the order in which its family describes them.
    pub fn own(&self) -> &[Tensor] {
        &self.tensors[..self.described.len()]
    }

    /// The model's own parameter of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn get(&self, name: &str) -> Result<&Tensor> {
        let place = self.described.iter().position(|parameter| parameter.name == name);
        place.map(|place| &self.tensors[place]).ok_or_else(|| Error::internal(format!("no parameter `{name}`")))
    }

    /// The network that reads pictures.
    #[must_use]
    pub fn network(&self) -> Option<&Cnn> {
        self.network.as_ref()
    }

    /// Parameters that training changes, with their names, in the order of [`Parameters::tensors`].
    #[must_use]
    pub fn trained(&self) -> Vec<(String, Tensor)> {
        let all = self.names().into_iter().zip(&self.tensors).enumerate();
        let trained = all.filter(|(place, (name, _))| match self.described.get(*place) {
            Some(own) => own.trained,
            None => Cnn::learns(name),
        });
        trained.map(|(_, (name, tensor))| (name, tensor.shallow_clone())).collect()
    }

    /// The same values as leaves of a graph, of which those that are trained want a gradient.
    ///
    /// # Errors
    /// As [`Parameters::new`].
    pub fn leaves(&self, data: &Data) -> Result<Self> {
        let trained: std::collections::HashSet<String> = self.trained().into_iter().map(|(name, _)| name).collect();
        let leaves = self.names().into_iter().zip(&self.tensors);
        let leaves = leaves.map(|(name, tensor)| tensor.detach().set_requires_grad(trained.contains(&name)));
        Self::new(self.described.clone(), data, leaves.collect())
    }

    /// Where they lie.
    #[must_use]
    pub fn device(&self) -> Device {
        self.tensors[0].device()
    }

    /// Their type.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.tensors[0].kind()
    }

    /// Under their names with `prefix`.
    #[must_use]
    pub fn named(&self, prefix: &str) -> Named {
        let names = self.names().into_iter().map(|name| format!("{prefix}{name}"));
        Named { tensors: names.zip(self.tensors.iter().map(Tensor::shallow_clone)).collect(), text: None }
    }

    /// As a safetensors file.
    ///
    /// # Errors
    /// Too large for memory.
    pub fn to_bytes(&self) -> Result<Bytes> {
        self.named("").to_bytes()
    }

    /// Takes over those of another model that this one has too, by their names.
    ///
    /// # Errors
    /// Bytes that are no model, or a parameter of another shape.
    pub fn begin_with(&self, other: &[u8]) -> Result<()> {
        let given = Named::from_bytes(other)?;
        for (name, own) in self.names().into_iter().zip(&self.tensors) {
            let Some(given) = given.tensors.get(&name) else { continue };
            if given.size() != own.size() {
                return Err(Error::data(format!("`{name}` is {:?}, wanted {:?}", given.size(), own.size())));
            }
            tch::no_grad(|| own.shallow_clone().copy_(given));
        }
        Ok(())
    }

    /// Replaces those rows of the parameter `name`, by their number, of which `row` has one.
    ///
    /// # Errors
    /// No such parameter, or a row of another width.
    pub fn set_rows<'v>(&self, name: &str, row: impl Fn(usize) -> Option<&'v [f32]>) -> Result<()> {
        let rows = self.get(name)?;
        let (count, width) = rows.size2().map_err(|_| Error::internal(format!("`{name}` has no rows")))?;
        for number in 0..count {
            let Some(values) = usize::try_from(number).ok().and_then(&row) else { continue };
            if i64::try_from(values.len()) != Ok(width) {
                return Err(Error::data(format!("a row of {} values for `{name}`, wanted {width}", values.len())));
            }
            tch::no_grad(|| rows.get(number).copy_(&Tensor::from_slice(values)));
        }
        Ok(())
    }

    /// Replaces the weights of the network that reads pictures by those of a safetensors file, as [`Cnn::from_file`] reads
    /// it.
    ///
    /// # Errors
    /// As there, or a model without such a network.
    pub fn set_network(&self, data: &Data, file: &[u8]) -> Result<()> {
        let pictures = data.pictures.ok_or_else(|| Error::internal("a model that reads no pictures"))?;
        let network = Cnn::from_file(pictures.network.architecture(), file, self.device())?;
        let given: HashMap<String, Tensor> = network.parameters().into_iter().collect();
        tch::no_grad(|| {
            for (name, mut own) in self.network.iter().flat_map(Cnn::parameters) {
                let missing = || Error::internal(format!("a network without `{name}`"));
                own.copy_(given.get(&name).ok_or_else(missing)?);
            }
            Ok(())
        })
    }

    /// Rows of pixels as unit features of the network, for a step of training.
    ///
    /// # Errors
    /// As [`Cnn::learn`]; a model that reads no pictures.
    pub fn learn(&self, rows: &Tensor, data: &Data) -> Result<Option<Learning>> {
        self.network.as_ref().map(|network| network.learn(&pictures(rows, data)?)).transpose()
    }

    /// Rows as the model's features: themselves, or the unit features of the network that reads them as pictures.
    ///
    /// # Errors
    /// As [`Cnn::unit_average`].
    pub fn features(&self, rows: Tensor, data: &Data) -> Result<Tensor> {
        match &self.network {
            Some(network) => network.unit_average(&pictures(&rows, data)?),
            None => Ok(rows),
        }
    }
}

/// Rows of pixels as pictures, `[n, 3, side, side]`.
fn pictures(rows: &Tensor, data: &Data) -> Result<Tensor> {
    let side = data.pictures.and_then(|pictures| i64::try_from(pictures.side).ok());
    let side = side.ok_or_else(|| Error::internal("a model that reads no pictures"))?;
    Ok(rows.view([-1, 3, side, side]))
}
