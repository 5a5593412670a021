//! Parameters and forward computation of VSE∞.
//!
//! ```text
//! regions: x ─► fc(x) + mlp(x) ─► pooling operator ─► L2 norm      mlp: linear → batch norm → ReLU → linear
//! words:   word vectors ─► GRU, both directions averaged ─► pooling operator ─► L2 norm
//! ```
//!
//! The score is the cosine of the two vectors.

use az::SaturatingAs;
use tch::Tensor;

use super::pooling_operator::{self, pool};
use super::published;
use super::settings::{PublishedVseInfinitySettings, VseInfinitySettings};
use super::size_augmentation::{change_words, drop_regions};
use crate::family::caption_gru::{CaptionGru, WORD_VECTORS};
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
const MLP_LAYERS: [&str; 2] = ["img_enc.mlp.layers.0", "img_enc.mlp.layers.1"];
const MLP_BATCH_NORM: &str = "img_enc.mlp.bns.0";
const REGION_POOLING: &str = "img_enc.gpool";

/// Prefix of the parameters of the pooling operator of words.
const WORD_POOLING: &str = "txt_enc.gpool";

/// Word vectors and GRU of captions.
fn caption_gru(settings: &VseInfinitySettings) -> CaptionGru {
    CaptionGru { word: settings.word_dim, state: settings.embed_size, bidirectional: settings.bidirectional }
}

/// Perceptron beside the linear layer of regions. Batch statistics are those of all regions of the batch.
fn mlp(settings: &VseInfinitySettings, graph: &Graph<'_>, regions: &Tensor) -> Result<Tensor> {
    let hidden = graph.linear(MLP_LAYERS[0], regions)?;
    let hidden = graph.batch_norm_of_rows(MLP_BATCH_NORM, &hidden, settings.batch_norm)?;
    graph.linear(MLP_LAYERS[1], &hidden.relu())
}

impl Differentiable for VseInfinitySettings {
    const CHECKPOINT_LAYOUT: Option<CheckpointLayout<'static>> = Some(published::LAYOUT);

    /// The linear layer of regions, their perceptron and pooling operator; then word vectors, GRU and pooling operator
    /// of captions. Linear layers are Xavier with zero bias.
    fn parameter_specs(&self, data: &InputSpec) -> Result<Vec<ParameterSpec>> {
        let (image, joint) = (tensor_width(data.image)?, tensor_width(self.embed_size)?);
        let pooling = tensor_width(self.pooling_dim)?;
        let mut all = ParameterSpec::linear(REGION_LAYER, joint, image).to_vec();
        if self.region_mlp {
            let hidden = joint / 2;
            all.extend(ParameterSpec::linear(MLP_LAYERS[0], hidden, image));
            all.extend(ParameterSpec::batch_norm(MLP_BATCH_NORM, hidden));
            all.extend(ParameterSpec::linear(MLP_LAYERS[1], joint, hidden));
        }
        all.extend(pooling_operator::parameter_specs(REGION_POOLING, pooling));
        all.extend(caption_gru(self).parameter_specs(data)?);
        all.extend(pooling_operator::parameter_specs(WORD_POOLING, pooling));
        Ok(all)
    }

    fn from_published(
        published: &PublishedVseInfinitySettings,
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
        let regions = match batch.filter(|_| self.size_augmentation > 0.0) {
            Some(batch) => drop_regions(&images, batch, self.size_augmentation),
            None => images,
        };
        let linear = graph.linear(REGION_LAYER, &regions.vectors)?;
        let vectors = if self.region_mlp { linear + mlp(self, graph, &regions.vectors)? } else { linear };
        let pooled = pool(graph, REGION_POOLING, &regions.with_vectors(vectors))?;
        Ok(EncodedItems::from_vectors(l2_normalize(&pooled, -1)))
    }

    fn forward_captions(
        &self,
        graph: &Graph<'_>,
        captions: &[&[i32]],
        batch: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems> {
        let probability = self.size_augmentation;
        let changed = batch.filter(|_| probability > 0.0);
        let words = graph.get(WORD_VECTORS)?.size()[0].saturating_as::<usize>();
        let changed = changed.map(|batch| change_words(captions, batch, words, probability));
        let changed: Option<Vec<&[i32]>> = changed.as_ref().map(|all| all.iter().map(Vec::as_slice).collect());
        let states = graph.word_states(&caption_gru(self), changed.as_deref().unwrap_or(captions), None)?;
        Ok(EncodedItems::from_vectors(l2_normalize(&pool(graph, WORD_POOLING, &states)?, -1)))
    }
}
