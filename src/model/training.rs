//! A training in progress: the model, its optimiser and the best parameters so far, as one thing that can be kept and
//! resumed to the bit.

use bytes::Bytes;
use tch::{Device, Tensor};

use super::adam::{Adam, norm};
use super::bank::{Bank, Kept, Member};
use super::collective::Group;
use super::form::Form;
use super::heap::keep_freed_memory;
use super::named::Named;
use super::trained;
use super::vse::Vse;
use crate::error::{Error, Result};

/// A training in progress.
#[derive(Debug)]
pub struct Training {
    vse: Vse,
    /// The parameters of `vse` that are trained, with their names.
    trained: Vec<(String, Tensor)>,
    adam: Adam,
    best: Option<Bytes>,
}

impl Training {
    /// Before the first step of `vse`.
    #[must_use]
    pub fn start(vse: Vse) -> Self {
        keep_freed_memory();
        let trained = vse.trained();
        let adam = Adam::new(trained.iter().map(|(_, parameter)| parameter));
        Self { vse, trained, adam, best: None }
    }

    /// The model as it is.
    #[must_use]
    pub fn vse(&self) -> &Vse {
        &self.vse
    }

    /// The model, to change how it computes.
    pub fn vse_mut(&mut self) -> &mut Vse {
        &mut self.vse
    }

    /// One step of Adam against `gradients`, those of [`Vse::backward`], their global L2 norm clipped to `clip_norm` as
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
        self.best = Some(trained::parameters(&self.vse)?);
        Ok(())
    }

    /// The bytes of [`PARAMETERS`](trained::PARAMETERS) of the best model so far; of the model as it is when none was
    /// remembered.
    ///
    /// # Errors
    /// Too large for memory.
    pub fn best(&self) -> Result<Bytes> {
        self.best.clone().map_or_else(|| trained::parameters(&self.vse), Ok)
    }

    /// The bank of an epoch: vectors of the samples by the model as it is, row-major, those of this rank's
    /// [share](crate::kernels::epoch::share) of `members`.
    ///
    /// # Errors
    /// As [`Bank::new`] and [`Group::all_gather`].
    pub fn bank(
        &self,
        epoch: u64,
        members: Vec<Member>,
        images: &[f32],
        captions: &[f32],
        group: &Group,
    ) -> Result<Bank> {
        let width = i64::try_from(self.vse.form().joint).unwrap_or(i64::MAX);
        let device = self.vse.parameters()[0].device();
        let all = |values: &[f32]| group.all_gather(&Tensor::from_slice(values).view([-1, width]).to_device(device));
        Bank::new(epoch, members, all(images)?, all(captions)?)
    }

    /// All of it, the bank under way, and a text of the caller.
    ///
    /// # Errors
    /// Too large for memory.
    pub fn to_bytes(&self, text: String, bank: Option<&Bank>) -> Result<Bytes> {
        let mut all = trained::named(&self.vse, "now.");
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
        all.text = Some(serde_json::json!([self.adam.steps(), text, self.vse.form()]).to_string());
        all.to_bytes()
    }

    /// What [`Training::to_bytes`] kept of a training of a model of `form`. The precision of its products is the default.
    ///
    /// # Errors
    /// Damaged bytes, or a model of another form.
    pub fn from_bytes(bytes: &[u8], form: &Form, device: Device) -> Result<(Self, String, Option<Kept>)> {
        keep_freed_memory();
        let mut all = Named::from_bytes(bytes)?;
        let bank = Kept::take(&mut all, device)?;
        let header = all.text.take().unwrap_or_default();
        let (steps, text, kept): (i32, String, Form) = serde_json::from_str(&header)
            .map_err(|error| Error::data(format!("a checkpoint with a damaged header: {error}")))?;
        if kept != *form {
            let [kept, wanted] = [&kept, form].map(|form| serde_json::json!(form));
            return Err(Error::data(format!("a checkpoint of another model: it has {kept}, wanted {wanted}")));
        }
        let vse = trained::model(&mut all, form.clone(), "now.", device)?;
        let parameters = vse.trained();
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
            Some(trained::parameters(&trained::model(&mut all, form.clone(), "best.", Device::Cpu)?)?)
        };
        Ok((Self { vse, trained: parameters, adam: Adam::resume(steps, moments), best }, text, bank))
    }
}
