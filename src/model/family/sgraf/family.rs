//! Parameters and forward computation of SGR and SAF.
//!
//! ```text
//! regions: linear → L2 norm ─┬─► global vector of the image   ─► global alignment ─┐
//! words:   GRU → L2 norm ────┼─► global vector of the caption ─►                   ├─► SGR or SAF ─► linear ─► sigmoid
//!                            └─► attention of each word to the regions ─► an alignment for each word ─┘
//! ```

use tch::Tensor;

use super::alignments::{score_specs, scores, words_to_regions};
use super::published;
use super::settings::{AlignmentModule, PublishedSgrafSettings, SgrafSettings};
use crate::family::attention::WordAttention;
use crate::family::caption_gru::CaptionGru;
use crate::family::differentiable::{AutogradConfig, Differentiable};
use crate::family::encoded_items::EncodedItems;
use crate::family::global_attention::GlobalAttention;
use crate::family::graph::{Graph, l2_normalize};
use crate::family::model::LocalBatch;
use crate::family::parameters::{ParameterSpec, tensor_width};
use crate::family::published::{CheckpointLayout, CheckpointShapes};
use crate::family::region_rows::REGION_LAYER;
use pairloom_base::error::Result;
use pairloom_spec::input_spec::InputSpec;

/// Layers of the attention that forms the global vectors of images and of captions.
const IMAGE_ATTENTION: [&str; 3] = [
    "sim_enc.v_global_w.embedding_local",
    "sim_enc.v_global_w.embedding_global",
    "sim_enc.v_global_w.embedding_common",
];
const CAPTION_ATTENTION: [&str; 3] = [
    "sim_enc.t_global_w.embedding_local",
    "sim_enc.t_global_w.embedding_global",
    "sim_enc.t_global_w.embedding_common",
];

/// Random streams of dropout. The attention of a side uses two.
const WORD_DROPOUT: u64 = 0x7367_7261_6600;
const IMAGE_DROPOUT: u64 = WORD_DROPOUT + 1;
const CAPTION_DROPOUT: u64 = WORD_DROPOUT + 3;

/// Word vectors and GRU of captions.
fn caption_gru(settings: &SgrafSettings) -> CaptionGru {
    CaptionGru { word: settings.word_dim, state: settings.embed_size, bidirectional: settings.bidirectional }
}

/// Attention that forms the global vectors of images.
fn image_attention(settings: &SgrafSettings) -> GlobalAttention<'static> {
    GlobalAttention {
        layers: IMAGE_ATTENTION,
        normalizes_mean: false,
        batch_norm: Some(settings.batch_norm),
        dropout: (settings.dropout, IMAGE_DROPOUT),
    }
}

/// Attention that forms the global vectors of captions.
fn caption_attention(settings: &SgrafSettings) -> GlobalAttention<'static> {
    let dropout = (settings.dropout, CAPTION_DROPOUT);
    GlobalAttention { layers: CAPTION_ATTENTION, normalizes_mean: false, batch_norm: None, dropout }
}

impl Differentiable for SgrafSettings {
    const CHECKPOINT_LAYOUT: Option<CheckpointLayout<'static>> = Some(published::LAYOUT);

    /// 64 MiB of f32: each block has gradients in all regions, and products of the regions with each other.
    const BLOCK_VALUES: i64 = 1 << 24;

    fn scores_pairs_alone(&self) -> bool {
        self.module == AlignmentModule::Sgr || self.batch_norm.single_rank_reason().is_none()
    }

    /// The linear layer of regions, word vectors and GRU, the attention of both sides, and the layers of the score.
    /// Linear layers are Xavier with zero bias.
    fn parameter_specs(&self, data: &InputSpec) -> Result<Vec<ParameterSpec>> {
        let (image, joint) = (tensor_width(data.image)?, tensor_width(self.embed_size)?);
        let places = tensor_width(data.regions.unwrap_or(1))?;
        let mut all = ParameterSpec::linear(REGION_LAYER, joint, image).to_vec();
        all.extend(caption_gru(self).parameter_specs(data)?);
        all.extend(image_attention(self).parameter_specs(joint, places));
        all.extend(caption_attention(self).parameter_specs(joint, places));
        all.extend(score_specs(self, joint, tensor_width(self.similarity_dim)?));
        Ok(all)
    }

    fn from_published(
        published: &PublishedSgrafSettings,
        shapes: &CheckpointShapes<'_>,
        words: usize,
    ) -> AutogradConfig<Self> {
        published::config(published, shapes, words)
    }

    /// The alignments of every module, and the attended vectors where libtorch computes the layer of differences. The
    /// blocks do not depend on who computes it.
    fn values_per_word(&self, images: &EncodedItems) -> i64 {
        let width = self.embed_size.saturating_add(self.similarity_dim);
        i64::try_from(images.len().saturating_mul(width)).unwrap_or(i64::MAX).max(images.padded_rows())
    }

    fn forward_images(
        &self,
        graph: &Graph<'_>,
        images: EncodedItems,
        batch: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems> {
        let regions = images.with_vectors(l2_normalize(&graph.linear(REGION_LAYER, &images.vectors)?, -1));
        let global = image_attention(self).forward(graph, &regions, batch)?;
        Ok(regions.with_first_vectors(&global))
    }

    fn forward_captions(
        &self,
        graph: &Graph<'_>,
        captions: &[&[i32]],
        batch: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems> {
        let mask = graph.word_dropout(captions, batch, WORD_DROPOUT, self.dropout)?;
        let states = graph.word_states(&caption_gru(self), captions, mask.as_ref())?;
        let words = states.with_vectors(l2_normalize(&states.vectors, -1));
        let global = caption_attention(self).forward(graph, &words, batch)?;
        Ok(words.with_first_vectors(&global))
    }

    fn forward_scores(&self, graph: &Graph<'_>, images: &EncodedItems, captions: &EncodedItems) -> Result<Tensor> {
        scores(self, graph, images, captions)
    }

    fn word_attention(&self, graph: &Graph<'_>, image: &EncodedItems, caption: &EncodedItems) -> Option<WordAttention> {
        Some(words_to_regions(self, graph, image, caption))
    }
}
