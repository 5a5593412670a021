//! Parameters and forward computation of SCAN.
//!
//! Regions: linear → L2 norm. Words: word vectors → GRU, both directions averaged → L2 norm. `<start>` and `<end>` are
//! words. The score is stacked cross attention between the regions of an image and the words of a caption.

use tch::Tensor;

use super::cross_attention::{scores, words_to_regions};
use super::published;
use super::settings::{PublishedScanSettings, ScanSettings};
use crate::family::attention::WordAttention;
use crate::family::caption_gru::CaptionGru;
use crate::family::differentiable::{AutogradConfig, Differentiable};
use crate::family::encoded_items::EncodedItems;
use crate::family::graph::{Graph, l2_normalize};
use crate::family::model::LocalBatch;
use crate::family::parameters::{ParameterSpec, tensor_width};
use crate::family::published::{CheckpointLayout, CheckpointShapes};
use crate::family::region_rows::REGION_LAYER;
use pairloom_base::error::Result;
use pairloom_spec::input_spec::InputSpec;

/// Word vectors and GRU of captions.
fn caption_gru(settings: &ScanSettings) -> CaptionGru {
    CaptionGru { word: settings.word_dim, state: settings.embed_size, bidirectional: settings.bidirectional }
}

impl Differentiable for ScanSettings {
    const CHECKPOINT_LAYOUT: Option<CheckpointLayout<'static>> = Some(published::LAYOUT);

    /// The products of a block are in the cache, not the attended vectors, so larger blocks are faster.
    const SCORE_BLOCK: [usize; 2] = [32, 64];

    /// The linear layer of regions (Xavier, zero bias), then the word vectors and the GRU of captions.
    fn parameter_specs(&self, data: &InputSpec) -> Result<Vec<ParameterSpec>> {
        let (image, joint) = (tensor_width(data.image)?, tensor_width(self.embed_size)?);
        let mut all = ParameterSpec::linear(REGION_LAYER, joint, image).to_vec();
        all.extend(caption_gru(self).parameter_specs(data)?);
        Ok(all)
    }

    fn from_published(
        published: &PublishedScanSettings,
        shapes: &CheckpointShapes<'_>,
        words: usize,
    ) -> AutogradConfig<Self> {
        published::config(published, shapes, words)
    }

    fn values_per_word(&self, images: &EncodedItems) -> i64 {
        images.padded_rows()
    }

    fn forward_images(
        &self,
        graph: &Graph<'_>,
        images: EncodedItems,
        _: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems> {
        let vectors = l2_normalize(&graph.linear(REGION_LAYER, &images.vectors)?, -1);
        Ok(images.with_vectors(vectors))
    }

    fn forward_captions(
        &self,
        graph: &Graph<'_>,
        captions: &[&[i32]],
        _: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems> {
        let states = graph.word_states(&caption_gru(self), captions, None)?;
        let vectors = l2_normalize(&states.vectors, -1);
        Ok(states.with_vectors(vectors))
    }

    fn forward_scores(&self, graph: &Graph<'_>, images: &EncodedItems, captions: &EncodedItems) -> Result<Tensor> {
        Ok(scores(self, graph, images, captions))
    }

    fn word_attention(&self, graph: &Graph<'_>, image: &EncodedItems, caption: &EncodedItems) -> Option<WordAttention> {
        Some(words_to_regions(self, graph, image, caption))
    }
}
