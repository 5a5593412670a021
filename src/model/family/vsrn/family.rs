//! Parameters and forward computation of VSRN.
//!
//! ```text
//! regions: linear → normalise → graph convolutions → normalise ─┬─► GRU over regions, last state ─► L2 norm
//! words:   word vectors → GRU, last state → L2 norm             └─► caption generator (training only)
//! ```
//!
//! The score is the cosine of the two vectors.

use super::caption_branch::{caption_loss, caption_specs};
use super::published;
use super::region_reasoning::{self, reason};
use super::settings::{CAPTION_LOSS, PublishedVsrnSettings, VsrnSettings};
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

/// Prefixes of the parameters of the image side.
const REGION_GRU: &str = "img_enc.img_rnn";
const OUTPUT_BATCH_NORM: &str = "img_enc.bn";

/// Word vectors and GRU of captions.
fn caption_gru(settings: &VsrnSettings) -> CaptionGru {
    CaptionGru { word: settings.word_dim, state: settings.embed_size, bidirectional: false }
}

impl Differentiable for VsrnSettings {
    const CHECKPOINT_LAYOUT: Option<CheckpointLayout<'static>> = Some(published::LAYOUT);

    /// The linear layer of regions (Xavier, zero bias), the graph convolutions and the GRU of regions; word vectors and
    /// GRU of captions; the caption generator.
    fn parameter_specs(&self, data: &InputSpec) -> Result<Vec<ParameterSpec>> {
        let (image, joint) = (tensor_width(data.image)?, tensor_width(self.embed_size)?);
        let mut all = ParameterSpec::linear(REGION_LAYER, joint, image).to_vec();
        let layers = 0..self.reasoning_layers;
        all.extend(layers.flat_map(|layer| region_reasoning::parameter_specs(layer, joint)));
        all.extend(ParameterSpec::gru(REGION_GRU, "", joint, joint));
        if self.output_batch_norm {
            all.extend(ParameterSpec::batch_norm(OUTPUT_BATCH_NORM, joint));
        }
        all.extend(caption_gru(self).parameter_specs(data)?);
        if self.has_caption_branch() {
            all.extend(caption_specs(self, data.words)?);
        }
        Ok(all)
    }

    fn from_published(
        published: &PublishedVsrnSettings,
        shapes: &CheckpointShapes<'_>,
        words: usize,
    ) -> AutogradConfig<Self> {
        published::config(published, shapes, words)
    }

    fn forward_images(
        &self,
        graph: &Graph<'_>,
        images: EncodedItems,
        batch: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems> {
        let regions = images.with_vectors(graph.linear(REGION_LAYER, &images.vectors)?);
        let regions = reason(self, graph, regions)?;
        let mut vectors = graph.gru_states(REGION_GRU, 1, &regions, graph.precision())?.last_vectors();
        if let Some(batch) = batch.filter(|_| self.has_caption_branch()) {
            graph.add_loss(CAPTION_LOSS[0], caption_loss(self, graph, &regions, batch)?);
        }
        if self.output_batch_norm {
            vectors = graph.batch_norm_of_rows(OUTPUT_BATCH_NORM, &vectors, self.batch_norm)?;
        }
        Ok(EncodedItems::from_vectors(l2_normalize(&vectors, -1)))
    }

    fn forward_captions(
        &self,
        graph: &Graph<'_>,
        captions: &[&[i32]],
        _: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems> {
        let states = graph.word_states(&caption_gru(self), captions, None)?;
        Ok(EncodedItems::from_vectors(l2_normalize(&states.last_vectors(), -1)))
    }
}
