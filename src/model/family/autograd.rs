//! Families whose gradients libtorch finds.

use tch::{Kind, Tensor};

use super::data::Data;
use super::encoded::Encoded;
use super::model::{Block, Forward, Losses, Model, Pulled, Share};
use super::parameters::Parameters;
use super::rows::Rows;
use crate::error::{Error, Result};
use crate::model::tensor_file::refused;

/// Auxiliary losses by their names: tensors of one value, weighted as they are added to the objective.
pub type LossTensors = Vec<(&'static str, Tensor)>;

/// A model that is computed forwards, with tensors that libtorch can differentiate. It is a [`Model`] by that.
///
/// `parameters` are those of [`Differentiable::parameters`], or leaves of a graph with the same values.
pub trait Differentiable: std::fmt::Debug + Send {
    /// The parameters.
    fn parameters(&self) -> &Parameters;

    /// The data that the model is for.
    fn data(&self) -> &Data;

    /// Encodes images `[n, D]`, features or the unit features of pictures. In a step the share is there, for what is drawn.
    ///
    /// # Errors
    /// Images that the model cannot read.
    fn images(&self, parameters: &Parameters, features: &Tensor, share: Option<&Share<'_>>) -> Result<Encoded>;

    /// Encodes captions.
    ///
    /// # Errors
    /// A failure of libtorch.
    fn captions(&self, parameters: &Parameters, captions: &[&[i32]], share: Option<&Share<'_>>) -> Result<Encoded>;

    /// Scores `[n, m]` of images with captions.
    ///
    /// # Errors
    /// A failure of libtorch.
    fn scores(&self, parameters: &Parameters, images: &Encoded, captions: &Encoded) -> Result<Tensor>;

    /// Auxiliary losses of the pairs of a share, which has one at least; those of a batch are the sums over its shares.
    ///
    /// # Errors
    /// A failure of libtorch.
    fn share_losses(
        &self,
        _parameters: &Parameters,
        _share: &Share<'_>,
        _images: &Encoded,
        _captions: &Encoded,
    ) -> Result<LossTensors> {
        Ok(Vec::new())
    }

    /// Auxiliary losses of a batch as a whole; image i and caption i are a pair.
    ///
    /// # Errors
    /// A failure of libtorch.
    fn batch_losses(&self, _parameters: &Parameters, _images: &Encoded, _captions: &Encoded) -> Result<LossTensors> {
        Ok(Vec::new())
    }

    /// Names of the losses of a share, which a share without pairs reports as 0.
    fn share_loss_names(&self) -> &'static [&'static str] {
        &[]
    }
}

impl<D: Differentiable> Model for D {
    fn parameters(&self) -> &Parameters {
        Differentiable::parameters(self)
    }

    fn data(&self) -> &Data {
        Differentiable::data(self)
    }

    fn encode_images(&self, images: &Rows<'_>) -> Result<Encoded> {
        tch::no_grad(|| {
            let parameters = Differentiable::parameters(self);
            let features = parameters.features(images.tensor().shallow_clone(), Differentiable::data(self))?;
            self.images(parameters, &features, None)
        })
    }

    fn encode_captions(&self, captions: &[&[i32]]) -> Result<Encoded> {
        tch::no_grad(|| self.captions(Differentiable::parameters(self), captions, None))
    }

    fn scores(&self, images: &Encoded, captions: &Encoded) -> Result<Tensor> {
        tch::no_grad(|| Differentiable::scores(self, Differentiable::parameters(self), images, captions))
    }

    fn forward<'m>(&'m self, share: &'m Share<'m>) -> Result<Forward<'m>> {
        let own = Differentiable::parameters(self);
        if share.pairs.is_empty() {
            return nothing(self, share);
        }
        let leaves = own.leaves(Differentiable::data(self))?;
        let (images, captions, losses) = tch::with_grad(|| -> Result<_> {
            let features = leaves.features(share.images.tensor().shallow_clone(), Differentiable::data(self))?;
            let images = self.images(&leaves, &features, Some(share))?;
            let captions = self.captions(&leaves, share.captions, Some(share))?;
            let losses = self.share_losses(&leaves, share, &images, &captions)?;
            Ok((images, captions, losses))
        })?;
        let values = values(&losses);
        let (given_images, given_captions) = (without_gradient(&images), without_gradient(&captions));
        let backward = move |d_images: &Tensor, d_captions: &Tensor| {
            let trained: Vec<Tensor> = leaves.trained().into_iter().map(|(_, leaf)| leaf).collect();
            gradients(&[(&images.vectors, d_images), (&captions.vectors, d_captions)], &losses, &trained)
        };
        Ok(Forward { images: given_images, captions: given_captions, losses: values, backward: Box::new(backward) })
    }

    fn block<'m>(&'m self, images: &'m Encoded, captions: &'m Encoded) -> Result<Block<'m>> {
        let leaves = Differentiable::parameters(self).leaves(Differentiable::data(self))?;
        let leaf = |side: &Encoded| side.with(side.vectors.detach().set_requires_grad(true));
        let (images, captions) = (leaf(images), leaf(captions));
        let (scores, losses) = tch::with_grad(|| -> Result<_> {
            let scores = Differentiable::scores(self, &leaves, &images, &captions)?;
            Ok((scores, self.batch_losses(&leaves, &images, &captions)?))
        })?;
        let (given, values) = (scores.detach(), values(&losses));
        let backward = move |d_scores: &Tensor, own: std::ops::Range<usize>| {
            let mut wanted = vec![images.vectors.shallow_clone(), captions.vectors.shallow_clone()];
            wanted.extend(leaves.trained().into_iter().map(|(_, leaf)| leaf));
            let mut found = gradients(&[(&scores, d_scores)], &losses, &wanted)?;
            let parameters = found.split_off(2);
            let part = |side: &Encoded, gradient: &Tensor| {
                let rows = side.rows(own.clone());
                gradient.narrow(0, rows.start, rows.end - rows.start)
            };
            let (images, captions) = (part(&images, &found[0]), part(&captions, &found[1]));
            Ok(Pulled { images, captions, parameters: Some(parameters) })
        };
        Ok(Block { scores: given, losses: values, backward: Box::new(backward) })
    }
}

/// Forward pass of an empty share: no vectors, as wide as those of an image of zeros and of a caption.
fn nothing<'m, D: Differentiable>(model: &'m D, share: &Share<'_>) -> Result<Forward<'m>> {
    let parameters = model.parameters();
    let width = share.images.tensor().size()[1];
    let (images, captions) = tch::no_grad(|| -> Result<_> {
        let one = Tensor::zeros([1, width], (parameters.kind(), parameters.device()));
        let images = model.images(parameters, &parameters.features(one, model.data())?, None)?;
        Ok((images.part(0..0), model.captions(parameters, &[&[0]], None)?.part(0..0)))
    })?;
    let losses = model.share_loss_names().iter().map(|&name| (name, 0.0)).collect();
    let trained = parameters.trained();
    let backward = move |_: &Tensor, _: &Tensor| Ok(trained.iter().map(|(_, tensor)| tensor.zeros_like()).collect());
    Ok(Forward { images, captions, losses, backward: Box::new(backward) })
}

fn without_gradient(side: &Encoded) -> Encoded {
    side.with(side.vectors.detach())
}

fn values(losses: &LossTensors) -> Losses {
    losses.iter().map(|(name, value)| (*name, value.double_value(&[]))).collect()
}

/// Gradients in `wanted` of all `losses` and of the sums of each tensor times its gradient; zeros where nothing leads there.
fn gradients(pulled: &[(&Tensor, &Tensor)], losses: &LossTensors, wanted: &[Tensor]) -> Result<Vec<Tensor>> {
    let of_pulled = pulled.iter().map(|(tensor, gradient)| (*tensor * *gradient).sum(None::<Kind>));
    let value = of_pulled.chain(losses.iter().map(|(_, loss)| loss.shallow_clone())).reduce(|a, b| a + b);
    let value = value.ok_or_else(|| Error::internal("nothing to differentiate"))?;
    let found = Tensor::f_run_backward(&[value], wanted, false, false).map_err(|error| refused(&error))?;
    let found = found.into_iter().zip(wanted);
    Ok(found.map(|(found, of)| if found.defined() { found.contiguous() } else { of.zeros_like() }).collect())
}
