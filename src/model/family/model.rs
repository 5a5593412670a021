//! Model of any family, as used by training, embedding and search.
//!
//! ```text
//! local batch ─► encode_batch ─► EncodedItems ─► all_gather ─► score_batch ─► scores [n, n] ─► objective ─► ∂/∂scores
//!                     │ local losses                               │ global losses                            │
//!   gradients of the parameters ◄─ encoder backward ◄─ ∂/∂ local vectors ◄─────── score backward ◄────────────┘
//! ```

use std::fmt::Debug;
use std::ops::Range;

use tch::Tensor;

use super::attention::WordAttention;
use super::buffer_updates::BufferUpdates;
use super::encoded_items::EncodedItems;
use super::image_rows::ImageRows;
use super::parameters::Parameters;
use crate::encoder::MatmulPrecision;
use crate::loss::Loss;
use crate::similarity::EmbeddingSimilarity;
use pairloom_base::error::{Error, Result};
use pairloom_spec::input_spec::InputSpec;

/// Numbers of images and captions of one vector each that a thread scores together.
pub const VECTOR_SCORE_BLOCK: [usize; 2] = [128, 256];

/// Model: parameters on a device, and the computations with them.
///
/// A family that libtorch differentiates implements [`Differentiable`](super::differentiable::Differentiable), which
/// implements this trait. A family with hand-written gradients implements this trait directly.
pub trait Model: Debug + Send {
    /// The parameters.
    fn parameters(&self) -> &Parameters;

    /// Description of the data that the model is for.
    fn input_spec(&self) -> &InputSpec;

    /// Similarity of the embeddings of an image and a caption; `None` if scores do not follow from one vector each.
    fn similarity(&self) -> Option<EmbeddingSimilarity> {
        None
    }

    /// Largest number of regions of an image; `None` if there is no limit.
    fn max_regions(&self) -> Option<usize> {
        None
    }

    /// True if the model reads a caption with the words of all captions of its image
    /// ([`with_image_words`](super::image_words::with_image_words)).
    fn reads_image_words(&self) -> bool {
        false
    }

    /// Numbers of images and captions that a thread scores together in a scoring of many pairs.
    fn score_block(&self) -> [usize; 2] {
        VECTOR_SCORE_BLOCK
    }

    /// Sets the precision of matrix products.
    ///
    /// # Errors
    /// The family does not support it.
    fn set_precision(&mut self, precision: MatmulPrecision) -> Result<()> {
        match precision {
            MatmulPrecision::F32 => Ok(()),
            MatmulPrecision::Mixed | MatmulPrecision::MixedByLibtorch => {
                Err(Error::internal("the model family has no mixed precision"))
            }
        }
    }

    /// Encodes images, without gradient.
    ///
    /// # Errors
    /// Images that the model cannot read.
    fn encode_images(&self, images: &ImageRows<'_>) -> Result<EncodedItems>;

    /// Encodes captions, given as token ids, without gradient. There is at least one, and all have passed
    /// [`check_token_ids`](super::encode::check_token_ids).
    ///
    /// # Errors
    /// A failure of libtorch.
    fn encode_captions(&self, captions: &[&[i32]]) -> Result<EncodedItems>;

    /// Scores `n` images with `m` captions, `[n, m]`, without gradient. Higher is more similar.
    ///
    /// # Errors
    /// A failure of libtorch.
    fn scores(&self, images: &EncodedItems, captions: &EncodedItems) -> Result<Tensor>;

    /// Attention between the words of one caption and the regions of one image, without gradient; `None` if the score has
    /// no such attention.
    fn word_attention(&self, _image: &EncodedItems, _caption: &EncodedItems) -> Option<WordAttention> {
        None
    }

    /// Encodes the local batch of a rank in a training step. It may be empty; its captions are checked.
    ///
    /// # Errors
    /// As [`Model::encode_images`] and [`Model::encode_captions`], or the numbers of images and captions differ.
    fn encode_batch<'m>(&'m self, batch: &'m LocalBatch<'m>) -> Result<EncodedBatch<'m>>;

    /// Scores all images of the global batch with all its captions in a training step; image i and caption i are a
    /// pair.
    ///
    /// # Errors
    /// A failure of libtorch.
    fn score_batch<'m>(
        &'m self,
        images: &'m EncodedItems,
        captions: &'m EncodedItems,
        context: GlobalLossContext<'_>,
    ) -> Result<ScoredBatch<'m>>;
}

/// Context of the auxiliary losses of a global batch.
#[derive(Debug, Clone, Copy, Default)]
pub struct GlobalLossContext<'c> {
    /// `[n, n]` bool: true where caption j is not a negative of image i because it is another caption of the same
    /// image.
    pub masked: Option<&'c Tensor>,
    /// Loss of the warm-up, in place of the model's own losses on scores.
    pub warm_up: Option<&'c Loss>,
}

/// Pairs of a batch that one rank encodes.
#[derive(Debug)]
pub struct LocalBatch<'b> {
    /// The images, one row for each pair.
    pub images: ImageRows<'b>,
    /// Token ids of the captions.
    pub captions: &'b [&'b [i32]],
    /// Range of these pairs in the global batch.
    pub pairs: Range<usize>,
    /// Number of pairs in the global batch, over all ranks.
    pub global_size: usize,
    /// Seed of the training and number of the step. Random numbers for a pair are a function of these and the index of
    /// the pair in the global batch.
    pub seed_and_step: [u64; 2],
}

/// Auxiliary losses as (name, value), already weighted as they enter the objective.
pub type AuxiliaryLosses = Vec<(&'static str, f64)>;

/// Backward pass from gradients in the vectors of images and captions to gradients in the trainable parameters.
pub type EncoderBackward<'m> = Box<dyn FnOnce(&Tensor, &Tensor) -> Result<Vec<Tensor>> + 'm>;

/// Backward pass from the gradient in the scores to gradients in the vectors of a range of images and captions.
pub type ScoreBackward<'m> = Box<dyn FnOnce(&Tensor, Range<usize>) -> Result<ScoreGradients> + 'm>;

/// Encoded local batch with its backward pass.
pub struct EncodedBatch<'m> {
    /// The images, without gradient.
    pub images: EncodedItems,
    /// The captions, without gradient.
    pub captions: EncodedItems,
    /// Auxiliary losses of these pairs, to be summed over the ranks.
    pub losses: AuxiliaryLosses,
    /// Running statistics after the forward pass.
    pub buffers: BufferUpdates,
    /// Maps gradients of the objective in the vectors of images and captions to gradients of the objective and `losses`
    /// in the trainable parameters, in the order of [`Parameters::trainable`]. Zeros for an empty batch.
    pub backward: EncoderBackward<'m>,
}

/// Scores of a global batch with their backward pass.
pub struct ScoredBatch<'m> {
    /// `[n, n]`, image by caption, without gradient.
    pub scores: Tensor,
    /// Auxiliary losses of the global batch.
    pub losses: AuxiliaryLosses,
    /// Running statistics after the forward pass.
    pub buffers: BufferUpdates,
    /// Maps the gradient of the objective in the scores to gradients of the objective and `losses` in the vectors of a
    /// range of images and the same range of captions.
    pub backward: ScoreBackward<'m>,
}

/// Gradients that the backward pass of the scores gives.
#[derive(Debug)]
pub struct ScoreGradients {
    /// Gradient in the vectors of the range of images.
    pub images: Tensor,
    /// Gradient in the vectors of the range of captions.
    pub captions: Tensor,
    /// Gradients of all scores in the trainable parameters, in the order of [`Parameters::trainable`]. `None` if scores
    /// depend on the vectors only.
    pub parameters: Option<Vec<Tensor>>,
}
