//! State of a training: the model, the optimiser and the best parameters so far. It can be saved and resumed bit for
//! bit.

use bytes::Bytes;
use tch::{Device, Tensor};

use super::adam::{Adam, AdamDecay, global_norm};
use super::family::model::Model;
use super::family::registry::ModelConfig;
use super::malloc::keep_freed_memory;
use super::memory_bank::{MemoryBank, SavedMemoryBank};
use super::safetensors_file::NamedTensors;
use pairloom_base::error::{Error, Result};
use pairloom_spec::loss::LearnedScalar;

/// State of a training in progress.
#[derive(Debug)]
pub struct TrainingState {
    config: ModelConfig,
    model: Box<dyn Model>,
    /// Trainable parameters of `model` with their names.
    trainable: Vec<(String, Tensor)>,
    /// Learned scalars of the loss.
    scalars: Vec<LearnedScalar>,
    /// Values of `scalars`, each `[1]`.
    scalar_values: Vec<Tensor>,
    /// Optimiser of `trainable` and `scalar_values`.
    adam: Adam,
    best: Option<Bytes>,
}

impl TrainingState {
    /// Creates the state before the first step of `model`, which `config` describes.
    #[must_use]
    pub fn new(config: ModelConfig, model: Box<dyn Model>) -> Self {
        keep_freed_memory();
        let trained = model.parameters().trainable();
        let adam = Adam::new(trained.iter().map(|(_, parameter)| parameter));
        Self { config, model, trainable: trained, scalars: Vec::new(), scalar_values: Vec::new(), adam, best: None }
    }

    /// Adds the learned scalars of the loss, before the first step.
    #[must_use]
    pub fn with_learned_scalars(mut self, scalars: Vec<LearnedScalar>) -> Self {
        let options = (self.model.parameters().kind(), self.model.parameters().device());
        self.scalar_values = scalars.iter().map(|scalar| Tensor::full([1], scalar.initial, options)).collect();
        self.scalars = scalars;
        let optimised = self.trainable.iter().map(|(_, parameter)| parameter).chain(&self.scalar_values);
        self.adam = Adam::new(optimised);
        self
    }

    /// Description of the model.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Current model.
    #[must_use]
    pub fn model(&self) -> &dyn Model {
        &*self.model
    }

    /// Current model, mutable, to change its precision.
    pub fn model_mut(&mut self) -> &mut dyn Model {
        &mut *self.model
    }

    /// Values of the learned scalars of the loss, each `[1]`.
    pub(super) fn scalars(&self) -> &[Tensor] {
        &self.scalar_values
    }

    /// Names and values of the learned scalars of the loss.
    #[must_use]
    pub fn scalar_values(&self) -> Vec<(String, f64)> {
        let values = self.scalar_values.iter().map(|value| value.double_value(&[0]));
        self.scalars.iter().map(|scalar| scalar.name.clone()).zip(values).collect()
    }

    /// Makes one step of Adam with `gradients`, their global L2 norm clipped to `clip_norm` as by `clip_grad_norm_`, and
    /// with `weight_decay` one of `AdamW`. Returns the norm before clipping. If the norm is not finite, the parameters do not change.
    ///
    /// Gradients are in the order of [`Parameters::trainable`](super::family::parameters::Parameters::trainable), then
    /// those of the learned scalars of the loss, which do not decay.
    pub fn apply_gradients(
        &mut self,
        gradients: &[Tensor],
        clip_norm: f64,
        learning_rate: f64,
        weight_decay: f64,
    ) -> f64 {
        let norm = global_norm(gradients);
        if norm.is_finite() {
            let scale = (clip_norm / (norm + 1e-6)).min(1.0);
            let decays = AdamDecay { weight_decay, parameters: self.trainable.len() };
            let parameters = self.trainable.iter().map(|(_, parameter)| parameter).chain(&self.scalar_values);
            self.adam.step(parameters, gradients, scale, learning_rate, decays);
            for (scalar, value) in self.scalars.iter().zip(&self.scalar_values) {
                if let Some(largest) = scalar.largest {
                    tch::no_grad(|| drop(value.shallow_clone().clamp_max_(largest)));
                }
            }
        }
        norm
    }

    /// Saves the current parameters as the best so far.
    ///
    /// # Errors
    /// The parameters do not fit into memory.
    pub fn save_best(&mut self) -> Result<()> {
        self.best = Some(self.model.parameters().to_bytes()?);
        Ok(())
    }

    /// Bytes of [`PARAMETERS_FILE`](super::trained_model::PARAMETERS_FILE) with the best parameters so far, or with the
    /// current ones if none were saved.
    ///
    /// # Errors
    /// The parameters do not fit into memory.
    pub fn best_parameters(&self) -> Result<Bytes> {
        self.best.clone().map_or_else(|| self.model.parameters().to_bytes(), Ok)
    }

    /// Serialises the state, the memory bank if there is one, and a text of the caller.
    ///
    /// # Errors
    /// The state does not fit into memory.
    pub fn to_bytes(&self, text: String, bank: Option<&MemoryBank>) -> Result<Bytes> {
        let mut all = self.model.parameters().to_named_tensors("now.");
        if let Some(bank) = bank {
            bank.save_to(&mut all);
        }
        for (scalar, value) in self.scalars.iter().zip(&self.scalar_values) {
            all.tensors.insert(scalar_name(scalar), value.shallow_clone());
        }
        let names = self.trainable.iter().map(|(name, _)| name.clone()).chain(self.scalars.iter().map(scalar_name));
        for ((m, v), name) in self.adam.moments().iter().zip(names) {
            all.tensors.insert(format!("first.{name}"), m.shallow_clone());
            all.tensors.insert(format!("second.{name}"), v.shallow_clone());
        }
        if let Some(best) = &self.best {
            let best = NamedTensors::from_bytes(best)?;
            all.tensors.extend(best.tensors.into_iter().map(|(name, tensor)| (format!("best.{name}"), tensor)));
        }
        all.text = Some(serde_json::json!([self.adam.steps(), text, self.config, self.scalars]).to_string());
        all.to_bytes()
    }

    /// Restores the state of a training of the model `config` from the bytes of [`TrainingState::to_bytes`]. The
    /// precision of matrix products is the default.
    ///
    /// # Errors
    /// Damaged bytes, or a checkpoint of another model.
    pub fn from_bytes(
        bytes: &[u8],
        config: &ModelConfig,
        device: Device,
    ) -> Result<(Self, String, Option<SavedMemoryBank>)> {
        keep_freed_memory();
        let mut all = NamedTensors::from_bytes(bytes)?;
        let bank = SavedMemoryBank::from_named_tensors(&mut all, device)?;
        let header = all.text.take().unwrap_or_default();
        let header: (i32, String, ModelConfig, Vec<LearnedScalar>) = serde_json::from_str(&header)
            .map_err(|error| Error::data(format!("the checkpoint has a damaged header: {error}")))?;
        let (steps, text, saved, scalars) = header;
        if saved != *config {
            let [saved, expected] = [&saved, config].map(|config| serde_json::json!(config));
            return Err(Error::data(format!("the checkpoint is of another model: got {saved}, expected {expected}")));
        }
        let model = config.load(&mut all, "now.", device)?;
        let parameters = model.parameters().trainable();
        let scalar_values = scalars.iter().map(|scalar| Ok(all.take(&scalar_name(scalar))?.to_device(device)));
        let scalar_values = scalar_values.collect::<Result<Vec<Tensor>>>()?;
        let scalar_pairs = scalars.iter().zip(&scalar_values).map(|(scalar, value)| (scalar_name(scalar), value));
        let optimised = parameters.iter().map(|(name, parameter)| (name.clone(), parameter)).chain(scalar_pairs);
        let mut moments = Vec::with_capacity(parameters.len() + scalars.len());
        for (name, parameter) in optimised {
            let mut moment = |order: &str| -> Result<Tensor> {
                let moment = all.take(&format!("{order}.{name}"))?.to_device(device);
                if moment.size() != parameter.size() {
                    return Err(Error::data(format!("the moments of `{name}` do not fit it")));
                }
                Ok(moment)
            };
            moments.push((moment("first")?, moment("second")?));
        }
        let best = if all.tensors.is_empty() {
            None
        } else {
            Some(config.load(&mut all, "best.", Device::Cpu)?.parameters().to_bytes()?)
        };
        let adam = Adam::from_moments(steps, moments);
        let config = config.clone();
        Ok((Self { config, model, trainable: parameters, scalars, scalar_values, adam, best }, text, bank))
    }
}

/// Restores a training from bytes from outside, of whichever model they name, for fuzzing.
///
/// # Errors
/// The bytes are no checkpoint.
pub fn parse_checkpoint(bytes: &[u8]) -> Result<()> {
    let header = NamedTensors::from_bytes(bytes)?.text.unwrap_or_default();
    let header: std::result::Result<(i32, String, ModelConfig, Vec<LearnedScalar>), _> = serde_json::from_str(&header);
    let (_, _, config, _) = header.map_err(|error| Error::data(error.to_string()))?;
    TrainingState::from_bytes(bytes, &config, Device::Cpu).map(drop)
}

/// Name of a learned scalar of the loss in a checkpoint.
fn scalar_name(scalar: &LearnedScalar) -> String {
    format!("loss.{}", scalar.name)
}
