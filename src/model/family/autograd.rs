//! Model families that libtorch differentiates.

use tch::{Kind, Tensor};

use super::encoded_items::EncodedItems;
use super::image_rows::ImageRows;
use super::input_spec::InputSpec;
use super::model::{AuxiliaryLosses, EncodedBatch, LocalBatch, Model, ScoreGradients, ScoredBatch};
use super::parameters::Parameters;
use crate::error::{Error, Result};
use crate::model::safetensors_file::libtorch_error;

/// Auxiliary losses as (name, scalar tensor), already weighted as they enter the objective.
pub type AuxiliaryLossTensors = Vec<(&'static str, Tensor)>;

/// Model that autograd differentiates, from its forward computation alone. Implements [`Model`].
///
/// The argument `parameters` holds [`Differentiable::parameters`] itself, or leaves of a graph with the same values.
pub trait Differentiable: std::fmt::Debug + Send {
    /// The parameters.
    fn parameters(&self) -> &Parameters;

    /// Description of the data that the model is for.
    fn input_spec(&self) -> &InputSpec;

    /// Encodes images `[n, D]`: features, or the L2-normalised CNN features of raw images. In a training step `batch`
    /// is given; its seed determines random draws.
    ///
    /// # Errors
    /// Images that the model cannot read.
    fn forward_images(
        &self,
        parameters: &Parameters,
        features: &Tensor,
        batch: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems>;

    /// Encodes captions, given as token ids.
    ///
    /// # Errors
    /// A failure of libtorch.
    fn forward_captions(
        &self,
        parameters: &Parameters,
        captions: &[&[i32]],
        batch: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems>;

    /// Scores images with captions, `[n, m]`.
    ///
    /// # Errors
    /// A failure of libtorch.
    fn forward_scores(&self, parameters: &Parameters, images: &EncodedItems, captions: &EncodedItems)
    -> Result<Tensor>;

    /// Auxiliary losses of the pairs of a local batch, which has at least one. They are summed over the ranks.
    ///
    /// # Errors
    /// A failure of libtorch.
    fn local_losses(
        &self,
        _parameters: &Parameters,
        _share: &LocalBatch<'_>,
        _images: &EncodedItems,
        _captions: &EncodedItems,
    ) -> Result<AuxiliaryLossTensors> {
        Ok(Vec::new())
    }

    /// Auxiliary losses of the global batch; image i and caption i are a pair.
    ///
    /// # Errors
    /// A failure of libtorch.
    fn global_losses(
        &self,
        _parameters: &Parameters,
        _images: &EncodedItems,
        _captions: &EncodedItems,
    ) -> Result<AuxiliaryLossTensors> {
        Ok(Vec::new())
    }

    /// Names of the local losses. A rank without pairs reports each as 0.
    fn local_loss_names(&self) -> &'static [&'static str] {
        &[]
    }
}

impl<D: Differentiable> Model for D {
    fn parameters(&self) -> &Parameters {
        Differentiable::parameters(self)
    }

    fn input_spec(&self) -> &InputSpec {
        Differentiable::input_spec(self)
    }

    fn encode_images(&self, images: &ImageRows<'_>) -> Result<EncodedItems> {
        tch::no_grad(|| {
            let parameters = Differentiable::parameters(self);
            let features =
                parameters.image_features(images.tensor().shallow_clone(), Differentiable::input_spec(self))?;
            self.forward_images(parameters, &features, None)
        })
    }

    fn encode_captions(&self, captions: &[&[i32]]) -> Result<EncodedItems> {
        tch::no_grad(|| self.forward_captions(Differentiable::parameters(self), captions, None))
    }

    fn scores(&self, images: &EncodedItems, captions: &EncodedItems) -> Result<Tensor> {
        tch::no_grad(|| Differentiable::forward_scores(self, Differentiable::parameters(self), images, captions))
    }

    fn encode_batch<'m>(&'m self, batch: &'m LocalBatch<'m>) -> Result<EncodedBatch<'m>> {
        let parameters = Differentiable::parameters(self);
        if batch.pairs.is_empty() {
            return encode_empty_batch(self, batch);
        }
        let leaves = parameters.detached_leaves(Differentiable::input_spec(self))?;
        let (images, captions, losses) = tch::with_grad(|| -> Result<_> {
            let features =
                leaves.image_features(batch.images.tensor().shallow_clone(), Differentiable::input_spec(self))?;
            let images = self.forward_images(&leaves, &features, Some(batch))?;
            let captions = self.forward_captions(&leaves, batch.captions, Some(batch))?;
            let losses = self.local_losses(&leaves, batch, &images, &captions)?;
            Ok((images, captions, losses))
        })?;
        let values = loss_values(&losses);
        let (detached_images, detached_captions) = (detached(&images), detached(&captions));
        let backward = move |d_images: &Tensor, d_captions: &Tensor| {
            let trainable: Vec<Tensor> = leaves.trainable().into_iter().map(|(_, leaf)| leaf).collect();
            gradients(&[(&images.vectors, d_images), (&captions.vectors, d_captions)], &losses, &trainable)
        };
        Ok(EncodedBatch {
            images: detached_images,
            captions: detached_captions,
            losses: values,
            backward: Box::new(backward),
        })
    }

    fn score_batch<'m>(&'m self, images: &'m EncodedItems, captions: &'m EncodedItems) -> Result<ScoredBatch<'m>> {
        let leaves = Differentiable::parameters(self).detached_leaves(Differentiable::input_spec(self))?;
        let leaf = |side: &EncodedItems| side.with_vectors(side.vectors.detach().set_requires_grad(true));
        let (images, captions) = (leaf(images), leaf(captions));
        let (scores, losses) = tch::with_grad(|| -> Result<_> {
            let scores = Differentiable::forward_scores(self, &leaves, &images, &captions)?;
            Ok((scores, self.global_losses(&leaves, &images, &captions)?))
        })?;
        let (detached_scores, values) = (scores.detach(), loss_values(&losses));
        let backward = move |d_scores: &Tensor, own: std::ops::Range<usize>| {
            let mut wanted = vec![images.vectors.shallow_clone(), captions.vectors.shallow_clone()];
            wanted.extend(leaves.trainable().into_iter().map(|(_, leaf)| leaf));
            let mut found = gradients(&[(&scores, d_scores)], &losses, &wanted)?;
            let parameters = found.split_off(2);
            let part = |side: &EncodedItems, gradient: &Tensor| {
                let rows = side.row_range(own.clone());
                gradient.narrow(0, rows.start, rows.end - rows.start)
            };
            let (images, captions) = (part(&images, &found[0]), part(&captions, &found[1]));
            Ok(ScoreGradients { images, captions, parameters: Some(parameters) })
        };
        Ok(ScoredBatch { scores: detached_scores, losses: values, backward: Box::new(backward) })
    }
}

/// Encodes an empty local batch: no vectors, of the width that an image of zeros and a caption have.
fn encode_empty_batch<'m, D: Differentiable>(model: &'m D, batch: &LocalBatch<'_>) -> Result<EncodedBatch<'m>> {
    let parameters = model.parameters();
    let width = batch.images.tensor().size()[1];
    let (images, captions) = tch::no_grad(|| -> Result<_> {
        let one = Tensor::zeros([1, width], (parameters.kind(), parameters.device()));
        let images = model.forward_images(parameters, &parameters.image_features(one, model.input_spec())?, None)?;
        Ok((images.slice(0..0), model.forward_captions(parameters, &[&[0]], None)?.slice(0..0)))
    })?;
    let losses = model.local_loss_names().iter().map(|&name| (name, 0.0)).collect();
    let trainable = parameters.trainable();
    let backward = move |_: &Tensor, _: &Tensor| Ok(trainable.iter().map(|(_, tensor)| tensor.zeros_like()).collect());
    Ok(EncodedBatch { images, captions, losses, backward: Box::new(backward) })
}

fn detached(side: &EncodedItems) -> EncodedItems {
    side.with_vectors(side.vectors.detach())
}

fn loss_values(losses: &AuxiliaryLossTensors) -> AuxiliaryLosses {
    losses.iter().map(|(name, value)| (*name, value.double_value(&[]))).collect()
}

/// Gradients in `wanted` of Σ ⟨tensor, gradient⟩ over `outputs` plus all `losses`; zeros for a tensor that neither
/// depends on.
fn gradients(outputs: &[(&Tensor, &Tensor)], losses: &AuxiliaryLossTensors, wanted: &[Tensor]) -> Result<Vec<Tensor>> {
    let products = outputs.iter().map(|(tensor, gradient)| (*tensor * *gradient).sum(None::<Kind>));
    let value = products.chain(losses.iter().map(|(_, loss)| loss.shallow_clone())).reduce(|a, b| a + b);
    let value = value.ok_or_else(|| Error::internal("there is nothing to differentiate"))?;
    let found = Tensor::f_run_backward(&[value], wanted, false, false).map_err(|error| libtorch_error(&error))?;
    let found = found.into_iter().zip(wanted);
    Ok(found.map(|(found, of)| if found.defined() { found.contiguous() } else { of.zeros_like() }).collect())
}
