//! Contract of a family that libtorch differentiates: settings with a forward computation.

use serde::{Deserialize, Serialize};
use tch::Tensor;

use super::attention::WordAttention;
use super::encoded_items::EncodedItems;
use super::graph::{AuxiliaryLossTensors, Graph};
use super::model::{GlobalLossContext, LocalBatch};
use super::parameters::ParameterSpec;
use super::published::{CheckpointLayout, CheckpointShapes};
use super::score_blocks::BLOCK_VALUES;
use pairloom_base::error::Result;
use pairloom_spec::family::FamilySettings;
use pairloom_spec::input_spec::InputSpec;

/// Description of a model that libtorch differentiates, without its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AutogradConfig<S> {
    /// Description of the data that the model is for.
    #[serde(flatten)]
    pub data: InputSpec,
    /// Settings of the model.
    #[serde(flatten)]
    pub settings: S,
}

/// Settings of a family whose forward computation libtorch differentiates.
/// [`AutogradModel`](super::autograd::AutogradModel) makes a model of them.
pub trait Differentiable: FamilySettings + PartialEq + Send + 'static {
    /// Layout of published checkpoints; `None` if there are none.
    const CHECKPOINT_LAYOUT: Option<CheckpointLayout<'static>>;

    /// Numbers of images and captions that a thread scores together in a scoring of many pairs, if their scores do not
    /// follow from one vector each. With few, the tensors of a block fit the processor's cache.
    const SCORE_BLOCK: [usize; 2] = [8, 32];

    /// Largest number of values of one tensor of the scores of a training step, which are computed in blocks of captions.
    const BLOCK_VALUES: i64 = BLOCK_VALUES;

    /// True if a score in a training step depends on its image and caption alone, not on statistics of the batch.
    fn scores_pairs_alone(&self) -> bool {
        true
    }

    /// Specifications of the parameters, in an order that never changes, without those of the CNN.
    ///
    /// # Errors
    /// A width that no tensor can have.
    fn parameter_specs(&self, data: &InputSpec) -> Result<Vec<ParameterSpec>>;

    /// Derives the description of a published model, whose vocabulary has `words` words.
    fn from_published(published: &Self::Published, shapes: &CheckpointShapes<'_>, words: usize)
    -> AutogradConfig<Self>;

    /// Number of values that the score of `images` with one word needs in one tensor. It bounds the blocks of
    /// captions that are scored together.
    fn values_per_word(&self, _images: &EncodedItems) -> i64 {
        1
    }

    /// Encodes images: their feature vectors, their regions, or the L2-normalised CNN features of raw images. In a
    /// training step `batch` is given; its seed determines random draws.
    ///
    /// # Errors
    /// Images that the model cannot read.
    fn forward_images(
        &self,
        graph: &Graph<'_>,
        images: EncodedItems,
        batch: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems>;

    /// Encodes captions, given as token ids.
    ///
    /// # Errors
    /// A failure of libtorch.
    fn forward_captions(
        &self,
        graph: &Graph<'_>,
        captions: &[&[i32]],
        batch: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems>;

    /// Scores images with captions, `[n, m]`: the inner products of their vectors, unless a family does otherwise.
    ///
    /// # Errors
    /// A failure of libtorch.
    fn forward_scores(&self, graph: &Graph<'_>, images: &EncodedItems, captions: &EncodedItems) -> Result<Tensor> {
        Ok(graph.matmul_transposed(&images.vectors, &captions.vectors))
    }

    /// Attention between the words of one caption and the regions of one image; `None` if the score has no such
    /// attention.
    fn word_attention(
        &self,
        _graph: &Graph<'_>,
        _image: &EncodedItems,
        _caption: &EncodedItems,
    ) -> Option<WordAttention> {
        None
    }

    /// Auxiliary losses of the global batch; image i and caption i are a pair.
    ///
    /// # Errors
    /// A failure of libtorch.
    fn global_losses(
        &self,
        _graph: &Graph<'_>,
        _images: &EncodedItems,
        _captions: &EncodedItems,
        _context: GlobalLossContext<'_>,
    ) -> Result<AuxiliaryLossTensors> {
        Ok(Vec::new())
    }
}
