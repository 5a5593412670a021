//! Model of any family, as a training, an embedding and a search use it.
//!
//! ```text
//! a rank's share ─► forward ─► Encoded ─► gathered ─► block ─► scores [n, n] ─► objective ─► ∂/∂scores
//!                      │ losses of the share              │ losses of the batch           │
//!   gradients of the parameters ◄─ backward ◄─ ∂/∂ own vectors ◄─ backward of the block ◄─┘
//! ```

use std::fmt::Debug;
use std::ops::Range;

use tch::Tensor;

use super::data::Data;
use super::encoded::Encoded;
use super::parameters::Parameters;
use super::rows::Rows;
use crate::error::{Error, Result};
use crate::model::encoder::Precision;
use crate::model::similarity::Similarity;

/// A model: parameters on a device, and what is computed with them.
///
/// A family whose gradients libtorch finds implements [`Differentiable`](super::autograd::Differentiable) and is a model by
/// that; one with gradients of its own implements this.
pub trait Model: Debug + Send {
    /// The parameters.
    fn parameters(&self) -> &Parameters;

    /// The data that it is for.
    fn data(&self) -> &Data;

    /// How a score follows from one vector of an image and one of a caption; `None` where it does not.
    fn similarity(&self) -> Option<Similarity> {
        None
    }

    /// Computes matrix products in `precision` from now on.
    ///
    /// # Errors
    /// The family has no such products.
    fn set_precision(&mut self, precision: Precision) -> Result<()> {
        match precision {
            Precision::F32 => Ok(()),
            Precision::Mixed => Err(Error::internal("a family without products of mixed precision was asked for them")),
        }
    }

    /// Encodes images, without gradient.
    ///
    /// # Errors
    /// Images that the model cannot read.
    fn encode_images(&self, images: &Rows<'_>) -> Result<Encoded>;

    /// Encodes captions, the numbers of their words, without gradient. There is one at least, and all are
    /// [checked](super::encode::check_words).
    ///
    /// # Errors
    /// A failure of libtorch.
    fn encode_captions(&self, captions: &[&[i32]]) -> Result<Encoded>;

    /// Scores `[n, m]` of `n` images with `m` captions, higher is closer, without gradient.
    ///
    /// # Errors
    /// A failure of libtorch.
    fn scores(&self, images: &Encoded, captions: &Encoded) -> Result<Tensor>;

    /// Encodes a rank's share of a batch for a step. A share may be empty; its captions are checked.
    ///
    /// # Errors
    /// As [`Model::encode_images`] and [`Model::encode_captions`], or their numbers differ.
    fn forward<'m>(&'m self, share: &'m Share<'m>) -> Result<Forward<'m>>;

    /// Scores of all images of a batch with all its captions for a step; image i and caption i are a pair.
    ///
    /// # Errors
    /// A failure of libtorch.
    fn block<'m>(&'m self, images: &'m Encoded, captions: &'m Encoded) -> Result<Block<'m>>;
}

/// A rank's share of a batch of pairs.
#[derive(Debug)]
pub struct Share<'b> {
    /// The images, one row a pair.
    pub images: Rows<'b>,
    /// The numbers of the words of the captions.
    pub captions: &'b [&'b [i32]],
    /// Which pairs of the batch these are.
    pub pairs: Range<usize>,
    /// Pairs of the batch over all ranks.
    pub of: usize,
    /// Seed of the training and number of the step: what a model draws for a pair is a function of these and the number of
    /// the pair.
    pub draw: [u64; 2],
}

/// Values of auxiliary losses by their names, as they are added to the objective.
pub type Losses = Vec<(&'static str, f64)>;

/// From gradients in the vectors of images and captions to those in the trained parameters.
pub type Backward<'m> = Box<dyn FnOnce(&Tensor, &Tensor) -> Result<Vec<Tensor>> + 'm>;

/// From the gradient in scores to those in the vectors of a range of images and captions.
pub type BlockBackward<'m> = Box<dyn FnOnce(&Tensor, Range<usize>) -> Result<Pulled> + 'm>;

/// An encoded share, and the way back.
pub struct Forward<'m> {
    /// The images, without gradient.
    pub images: Encoded,
    /// The captions, without gradient.
    pub captions: Encoded,
    /// Auxiliary losses of these pairs. Those of a batch are the sums over its shares.
    pub losses: Losses,
    /// From gradients in the vectors of images and captions: those of the objective and the losses in the trained
    /// parameters, in the order of [`Parameters::trained`]; zeros for an empty share.
    pub backward: Backward<'m>,
}

/// Scores of a batch, and the way back.
pub struct Block<'m> {
    /// `[n, n]`, image by caption, without gradient.
    pub scores: Tensor,
    /// Auxiliary losses of the batch as a whole.
    pub losses: Losses,
    /// From the gradient in the scores: those of the objective and the losses in the vectors of a range of images and of the
    /// same range of captions.
    pub backward: BlockBackward<'m>,
}

/// Gradients of a block of scores.
#[derive(Debug)]
pub struct Pulled {
    /// In the vectors of the images asked for.
    pub images: Tensor,
    /// In the vectors of the captions asked for.
    pub captions: Tensor,
    /// In the trained parameters that scores are made with, in the order of [`Parameters::trained`], of the whole block;
    /// `None` where scores are made of the vectors alone.
    pub parameters: Option<Vec<Tensor>>,
}
