//! A training in progress: the model, its optimiser and the best parameters so far, as one thing that can be kept and
//! resumed to the bit.

use bytes::Bytes;
use tch::{Device, Tensor};

use super::adam::{Adam, clip};
use super::loss::Loss;
use super::named::Named;
use super::trained;
use super::vse::{NAMES, Vse, Widths};
use crate::error::{Error, Result};

/// A training in progress.
#[derive(Debug)]
pub struct Training {
    vse: Vse,
    adam: Adam,
    best: Option<Bytes>,
}

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stepped {
    /// Value of the objective before the step, summed over the batch.
    pub loss: f64,
    /// Global L2 norm of the gradient before clipping.
    pub gradient_norm: f64,
}

impl Training {
    /// Before the first step.
    ///
    /// # Errors
    /// A width that no tensor can have.
    pub fn start(widths: Widths, seed: u64, device: Device) -> Result<Self> {
        let vse = Vse::new(widths, seed, device)?;
        Ok(Self { adam: Adam::new(vse.parameters()), vse, best: None })
    }

    /// The model as it is.
    #[must_use]
    pub fn vse(&self) -> &Vse {
        &self.vse
    }

    /// One step of Adam on a batch of matching pairs, the gradient's global norm clipped to `clip_norm`.
    ///
    /// A loss or gradient that is not finite leaves the parameters as they were.
    ///
    /// # Errors
    /// As [`Vse::step`].
    pub fn step(
        &mut self,
        features: &[f32],
        captions: &[&[i64]],
        loss: &Loss,
        clip_norm: f64,
        learning_rate: f64,
    ) -> Result<Stepped> {
        let step = self.vse.step(features, captions, loss)?;
        let gradient_norm = clip(&step.gradients, clip_norm);
        if step.loss.is_finite() && gradient_norm.is_finite() {
            self.adam.step(self.vse.parameters(), &step.gradients, learning_rate);
        }
        Ok(Stepped { loss: step.loss, gradient_norm })
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

    /// All of it, and a text of the caller.
    ///
    /// # Errors
    /// Too large for memory.
    pub fn to_bytes(&self, text: String) -> Result<Bytes> {
        let mut all = trained::named(&self.vse, "now.");
        for ((m, v), name) in self.adam.moments().iter().zip(NAMES) {
            all.tensors.insert(format!("first.{name}"), m.shallow_clone());
            all.tensors.insert(format!("second.{name}"), v.shallow_clone());
        }
        if let Some(best) = &self.best {
            let best = Named::from_bytes(best)?;
            all.tensors.extend(best.tensors.into_iter().map(|(name, tensor)| (format!("best.{name}"), tensor)));
        }
        all.text = Some(serde_json::json!([self.adam.steps(), text]).to_string());
        all.to_bytes()
    }

    /// What [`Training::to_bytes`] kept.
    ///
    /// # Errors
    /// Damaged bytes.
    pub fn from_bytes(bytes: &[u8], device: Device) -> Result<(Self, String)> {
        let mut all = Named::from_bytes(bytes)?;
        let header = all.text.take().unwrap_or_default();
        let (steps, text): (i32, String) = serde_json::from_str(&header)
            .map_err(|error| Error::data(format!("a checkpoint with a damaged header: {error}")))?;
        let vse = trained::model(&mut all, "now.", device)?;
        let mut moments = Vec::with_capacity(NAMES.len());
        for (name, parameter) in NAMES.iter().zip(vse.parameters()) {
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
            Some(trained::parameters(&trained::model(&mut all, "best.", Device::Cpu)?)?)
        };
        Ok((Self { vse, adam: Adam::resume(steps, moments), best }, text))
    }
}
