//! Model of any family, as used by training, embedding and search, and the trait of the families.
//!
//! ```text
//! local batch ─► encode_batch ─► EncodedItems ─► all_gather ─► score_batch ─► scores [n, n] ─► objective ─► ∂/∂scores
//!                     │ local losses                               │ global losses                            │
//!   gradients of the parameters ◄─ encoder backward ◄─ ∂/∂ local vectors ◄─────── score backward ◄────────────┘
//! ```

use std::fmt::Debug;
use std::ops::Range;

use az::SaturatingAs;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tch::Tensor;

use super::attention::WordAttention;
use super::encode::EncodedItems;
use super::image_rows::ImageRows;
use super::parameters::{BufferUpdates, ParameterSpec, Parameters};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::random::Rng;
use pairloom_spec::family::FamilySettings;
use pairloom_spec::input_spec::InputSpec;
use pairloom_spec::loss::Loss;
use pairloom_spec::precision::MatmulPrecision;
use pairloom_spec::similarity::EmbeddingSimilarity;

/// Numbers of images and captions of one vector each that a thread scores together.
pub const VECTOR_SCORE_BLOCK: [usize; 2] = [128, 256];

/// Model: parameters on a device, and the computations with them.
///
/// A family that libtorch differentiates implements [`Differentiable`](super::autograd::Differentiable), which
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
    /// ([`with_image_words`](super::concept_graph::with_image_words)).
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

    /// Encodes captions, given as token ids of the vocabulary, without gradient. There is at least one caption, and each
    /// has a token.
    fn encode_captions(&self, captions: &[&[i32]]) -> Result<EncodedItems>;

    /// Scores `n` images with `m` captions, `[n, m]`, without gradient. Higher is more similar.
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

/// Family of models. A value of the type describes one model without its parameters, as `model.json` does.
pub trait Family: Debug + Clone + PartialEq + Serialize + DeserializeOwned {
    /// Settings of a model in the stage `train` of a pipeline file.
    type Settings: FamilySettings;

    /// Description of the model with these settings, for this data.
    fn from_settings(settings: &Self::Settings, input_spec: InputSpec) -> Self;

    /// Description of the data that the model is for.
    fn input_spec(&self) -> &InputSpec;

    /// Description of the data that the model is for, mutable.
    fn input_spec_mut(&mut self) -> &mut InputSpec;

    /// Specifications of the parameters, in an order that never changes, without those of the CNN.
    ///
    /// # Errors
    /// A width that no tensor can have.
    fn parameter_specs(&self) -> Result<Vec<ParameterSpec>>;

    /// Builds the model with these parameters.
    ///
    /// # Errors
    /// Parameters that do not fit each other.
    fn build(&self, parameters: Parameters) -> Result<Box<dyn Model>>;

    /// Reads a published checkpoint, whose vocabulary has `words` words.
    ///
    /// # Errors
    /// Bytes that are not such a checkpoint, with all mistakes in one message.
    fn read_published(
        settings: &<Self::Settings as FamilySettings>::Published,
        checkpoint: &[u8],
        words: usize,
    ) -> Result<PublishedCheckpoint<Self>>;
}

/// Contents of a published checkpoint.
#[derive(Debug)]
pub struct PublishedCheckpoint<F> {
    /// Description of the model.
    pub config: F,
    /// Parameters as the bytes of `model.safetensors`.
    pub parameters: Bytes,
    /// Warning about tensors that were ignored.
    pub warning: Option<String>,
}

impl LocalBatch<'_> {
    /// Random numbers for a pair of the local batch. They depend on the seed, the step, the index of the pair in the
    /// global batch and `stream`, so the number of ranks does not matter.
    #[must_use]
    pub fn rng(&self, pair: usize, stream: u64) -> Rng {
        let [seed, step] = self.seed_and_step;
        Rng::new(seed, &[stream, step, (self.pairs.start + pair).saturating_as::<u64>()])
    }

    /// Dropout mask of the pairs, with `counts[i]` rows of `width` values for pair i, `[Σ counts, width]`, of the type and
    /// device of `like`. A value is 0 with `probability`, and 1 / (1 − probability) elsewhere.
    pub fn dropout_mask(&self, stream: u64, counts: &[i64], width: i64, probability: f64, like: &Tensor) -> Tensor {
        #[expect(clippy::cast_possible_truncation, reason = "activations are f32 or f64")]
        let kept = (1.0 / (1.0 - probability)) as f32;
        let mut mask = Vec::new();
        for (pair, &count) in counts.iter().enumerate() {
            let mut rng = self.rng(pair, stream);
            let draw = |_: i64| if rng.uniform() < probability { 0.0 } else { kept };
            mask.extend((0..count * width).map(draw));
        }
        Tensor::from_slice(&mask).view([-1, width]).to_device(like.device()).to_kind(like.kind())
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    #[test]
    fn masks_of_a_pair_do_not_depend_on_the_rank() {
        let like = Tensor::zeros([1], (Kind::Float, Device::Cpu));
        let mask = |pairs: Range<usize>, step: u64, counts: &[i64]| {
            let images = ImageRows::new(&[], 1, &like).expect("no images");
            let batch = LocalBatch { images, captions: &[], pairs, global_size: 3, seed_and_step: [7, step] };
            Vec::<f32>::try_from(batch.dropout_mask(1, counts, 500, 0.4, &like).view(-1)).expect("values")
        };
        let all = mask(0..3, 1, &[1, 2, 1]);
        assert_eq!(mask(1..3, 1, &[2, 1]), all[500..]);
        assert_ne!(mask(0..3, 2, &[1, 2, 1]), all);
        let dropped = all.iter().filter(|&&value| value == 0.0).count();
        // 800 of 2,000 with a standard deviation of 22.
        assert!((700..900).contains(&dropped), "{dropped}");
        assert!(all.iter().all(|&value| value == 0.0 || (value - 1.0 / 0.6).abs() < 1e-6));
    }
}
