//! A training in progress: the model, its optimiser and the best parameters so far, as one thing that can be kept and
//! resumed to the bit.

use bytes::Bytes;
use tch::{Device, Tensor};

use super::adam::{Adam, norm};
use super::bank::{Bank, Kept};
use super::family::list::Config;
use super::family::model::Model;
use super::heap::keep_freed_memory;
use super::named::Named;
use crate::error::{Error, Result};

/// A training in progress.
#[derive(Debug)]
pub struct Training {
    config: Config,
    model: Box<dyn Model>,
    /// The parameters of `model` that are trained, with their names.
    trained: Vec<(String, Tensor)>,
    adam: Adam,
    best: Option<Bytes>,
}

impl Training {
    /// Before the first step of `model`, which `config` describes.
    #[must_use]
    pub fn start(config: Config, model: Box<dyn Model>) -> Self {
        keep_freed_memory();
        let trained = model.parameters().trained();
        let adam = Adam::new(trained.iter().map(|(_, parameter)| parameter));
        Self { config, model, trained, adam, best: None }
    }

    /// Description of the model.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The model as it is.
    #[must_use]
    pub fn model(&self) -> &dyn Model {
        &*self.model
    }

    /// The model, to change how it computes.
    pub fn model_mut(&mut self) -> &mut dyn Model {
        &mut *self.model
    }

    /// One step of Adam against `gradients`, in the order of [`Parameters::trained`](super::family::parameters::Parameters::trained), their global L2 norm clipped to `clip_norm` as
    /// `clip_grad_norm_` does; gives the norm before. Gradients with a norm that is not finite leave the parameters as they were.
    pub fn update(&mut self, gradients: &[Tensor], clip_norm: f64, learning_rate: f64) -> f64 {
        let norm = norm(gradients);
        if norm.is_finite() {
            let scale = (clip_norm / (norm + 1e-6)).min(1.0);
            let parameters = self.trained.iter().map(|(_, parameter)| parameter);
            self.adam.step(parameters, gradients, scale, learning_rate);
        }
        norm
    }

    /// Remembers the model as it is as the best so far.
    ///
    /// # Errors
    /// Too large for memory.
    pub fn keep_best(&mut self) -> Result<()> {
        self.best = Some(self.model.parameters().to_bytes()?);
        Ok(())
    }

    /// The bytes of [`PARAMETERS`](super::trained::PARAMETERS) of the best model so far; of the model as it is when none was
    /// remembered.
    ///
    /// # Errors
    /// Too large for memory.
    pub fn best(&self) -> Result<Bytes> {
        self.best.clone().map_or_else(|| self.model.parameters().to_bytes(), Ok)
    }

    /// All of it, the bank under way, and a text of the caller.
    ///
    /// # Errors
    /// Too large for memory.
    pub fn to_bytes(&self, text: String, bank: Option<&Bank>) -> Result<Bytes> {
        let mut all = self.model.parameters().named("now.");
        if let Some(bank) = bank {
            bank.keep(&mut all);
        }
        for ((m, v), (name, _)) in self.adam.moments().iter().zip(&self.trained) {
            all.tensors.insert(format!("first.{name}"), m.shallow_clone());
            all.tensors.insert(format!("second.{name}"), v.shallow_clone());
        }
        if let Some(best) = &self.best {
            let best = Named::from_bytes(best)?;
            all.tensors.extend(best.tensors.into_iter().map(|(name, tensor)| (format!("best.{name}"), tensor)));
        }
        all.text = Some(serde_json::json!([self.adam.steps(), text, self.config]).to_string());
        all.to_bytes()
    }

    /// Training of the model of `config` from the bytes of [`Training::to_bytes`]. The precision of its products is the default.
    ///
    /// # Errors
    /// Damaged bytes, or a model of another form.
    pub fn from_bytes(bytes: &[u8], config: &Config, device: Device) -> Result<(Self, String, Option<Kept>)> {
        keep_freed_memory();
        let mut all = Named::from_bytes(bytes)?;
        let bank = Kept::take(&mut all, device)?;
        let header = all.text.take().unwrap_or_default();
        let (steps, text, kept): (i32, String, Config) = serde_json::from_str(&header)
            .map_err(|error| Error::data(format!("a checkpoint with a damaged header: {error}")))?;
        if kept != *config {
            let [kept, wanted] = [&kept, config].map(|config| serde_json::json!(config));
            return Err(Error::data(format!("a checkpoint of another model: it has {kept}, wanted {wanted}")));
        }
        let model = config.take(&mut all, "now.", device)?;
        let parameters = model.parameters().trained();
        let mut moments = Vec::with_capacity(parameters.len());
        for (name, parameter) in &parameters {
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
            Some(config.take(&mut all, "best.", Device::Cpu)?.parameters().to_bytes()?)
        };
        let adam = Adam::resume(steps, moments);
        Ok((Self { config: config.clone(), model, trained: parameters, adam, best }, text, bank))
    }
}
