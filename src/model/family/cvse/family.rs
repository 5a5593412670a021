//! Parameters and forward computation of CVSE.
//!
//! ```text
//! regions: linear → L2 norm ─► attention ─► instance vector ─┬──────────────────────────────────┐
//! words:   GRU → L2 norm ────► attention ─► instance vector ─┤                                  ├─► fused vector
//! concepts: graph convolutions ─────────────────────────────►└─► attention ─► consensus vector ─┘
//! ```
//!
//! Fused = L2(β · instance + (1 − β) · consensus). The score in training is the cosine of the fused vectors. Afterwards it
//! is (1 − w) times that cosine plus w times the cosine of the consensus vectors: the cosine of the vectors
//! \[√(1 − w) · fused, √w · consensus\]. The published evaluation has w = 0.05; its labels of concepts of similar test
//! captions are not done here.

use tch::{Kind, Tensor};

use super::consensus::{self, INVERSE_TEMPERATURE, concept_vectors, log_concept_weights};
use super::published;
use super::settings::{ConceptLabels, CvseSettings, PublishedCvseSettings};
use crate::family::caption_gru::CaptionGru;
use crate::family::concept_graph::{concept_labels, concept_specs};
use crate::family::differentiable::{AutogradConfig, Differentiable};
use crate::family::encoded_items::EncodedItems;
use crate::family::global_attention::GlobalAttention;
use crate::family::graph::{AuxiliaryLossTensors, Graph, l2_normalize};
use crate::family::image_words::own_words;
use crate::family::model::{GlobalLossContext, LocalBatch};
use crate::family::parameters::{ParameterSpec, tensor_width};
use crate::family::published::{CheckpointLayout, CheckpointShapes};
use crate::family::region_rows::REGION_LAYER;
use crate::loss::{LossFunction, LossInput, Negatives};
use pairloom_base::error::Result;
use pairloom_spec::input_spec::InputSpec;

/// Layers of the attention that forms the instance vectors of images and of captions.
const IMAGE_ATTENTION: [&str; 3] = ["V_att.embedding_1", "V_att.embedding_2", "V_att.embedding_3"];
const CAPTION_ATTENTION: [&str; 3] = ["T_att.embedding_1", "T_att.embedding_2", "T_att.embedding_3"];

/// Prefixes of the parameters of the attention to concepts.
const IMAGE_CONSENSUS: &str = "V_consensus_att";
const CAPTION_CONSENSUS: &str = "T_consensus_att";

/// Random streams of dropout. The attention of a side uses two.
const WORD_DROPOUT: u64 = 0x0063_7673_6500;
const IMAGE_DROPOUT: u64 = WORD_DROPOUT + 1;
const CAPTION_DROPOUT: u64 = WORD_DROPOUT + 3;

/// Word vectors and GRU of captions.
fn caption_gru(settings: &CvseSettings) -> CaptionGru {
    CaptionGru { word: settings.word_dim, state: settings.embed_size, bidirectional: settings.bidirectional }
}

/// Attention that forms the instance vectors of images.
fn image_attention(settings: &CvseSettings) -> GlobalAttention<'static> {
    let (batch_norm, dropout) = (Some(settings.batch_norm), (settings.dropout, IMAGE_DROPOUT));
    GlobalAttention { layers: IMAGE_ATTENTION, normalizes_mean: false, batch_norm, dropout }
}

/// Attention that forms the instance vectors of captions.
fn caption_attention(settings: &CvseSettings) -> GlobalAttention<'static> {
    let dropout = (settings.dropout, CAPTION_DROPOUT);
    GlobalAttention { layers: CAPTION_ATTENTION, normalizes_mean: true, batch_norm: None, dropout }
}

/// Vectors of the score after training, `[n, d]` or with consensus vectors `[n, 2 d]`. In a training step they are
/// followed by what its losses need: fused vectors if they are not the former, instance vectors, consensus vectors,
/// and `concept_weights`.
fn fuse(
    settings: &CvseSettings,
    instance: &Tensor,
    consensus: &Tensor,
    concept_weights: Option<&Tensor>,
) -> EncodedItems {
    let fused = l2_normalize(&(instance * settings.fusion_weight + consensus * (1.0 - settings.fusion_weight)), -1);
    let share = settings.consensus_score_weight;
    let scored = (share > 0.0).then(|| Tensor::cat(&[&fused * (1.0 - share).sqrt(), consensus * share.sqrt()], 1));
    EncodedItems::from_vectors(match concept_weights {
        Some(weights) => {
            let parts: Vec<&Tensor> = scored.iter().chain([&fused, instance, consensus, weights]).collect();
            Tensor::cat(&parts, 1)
        }
        None => scored.unwrap_or(fused),
    })
}

/// Column of the fused vectors in a training step.
fn fused_column(settings: &CvseSettings) -> Result<i64> {
    let width = tensor_width(settings.embed_size)?;
    Ok(if settings.consensus_score_weight > 0.0 { 2 * width } else { 0 })
}

impl Differentiable for CvseSettings {
    const CHECKPOINT_LAYOUT: Option<CheckpointLayout<'static>> = Some(published::LAYOUT);

    /// The linear layer of regions, word vectors and GRU, the attention of both sides, that to concepts, the graph
    /// convolutions, and the concepts. Linear layers are Xavier with zero bias.
    fn parameter_specs(&self, data: &InputSpec) -> Result<Vec<ParameterSpec>> {
        let (image, joint) = (tensor_width(data.image)?, tensor_width(self.embed_size)?);
        let (word, places) = (tensor_width(self.word_dim)?, tensor_width(data.regions.unwrap_or(1))?);
        let mut all = ParameterSpec::linear(REGION_LAYER, joint, image).to_vec();
        all.extend(caption_gru(self).parameter_specs(data)?);
        all.extend(image_attention(self).parameter_specs(joint, places));
        all.extend(caption_attention(self).parameter_specs(joint, places));
        all.extend(consensus::attention_specs(IMAGE_CONSENSUS, joint));
        all.extend(consensus::attention_specs(CAPTION_CONSENSUS, joint));
        all.extend(consensus::graph_specs(word, joint));
        all.extend(concept_specs(data, word)?);
        Ok(all)
    }

    fn from_published(
        published: &PublishedCvseSettings,
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
        let regions = images.with_vectors(l2_normalize(&graph.linear(REGION_LAYER, &images.vectors)?, -1));
        let instance = image_attention(self).forward(graph, &regions, batch)?;
        let concepts = concept_vectors(graph)?;
        let weights = log_concept_weights(self, graph, IMAGE_CONSENSUS, &concepts, &instance)?;
        let consensus = l2_normalize(&graph.matmul(&weights.exp(), &concepts), -1);
        Ok(fuse(self, &instance, &consensus, batch.map(|_| &weights)))
    }

    fn forward_captions(
        &self,
        graph: &Graph<'_>,
        captions: &[&[i32]],
        batch: Option<&LocalBatch<'_>>,
    ) -> Result<EncodedItems> {
        let own: Vec<&[i32]> = captions.iter().map(|caption| own_words(caption)).collect();
        let mask = graph.word_dropout(&own, batch, WORD_DROPOUT, self.dropout)?;
        let states = graph.word_states(&caption_gru(self), &own, mask.as_ref())?;
        let words = states.with_vectors(l2_normalize(&states.vectors, -1));
        let instance = caption_attention(self).forward(graph, &words, batch)?;
        let concepts = concept_vectors(graph)?;
        let mut weights = log_concept_weights(self, graph, CAPTION_CONSENSUS, &concepts, &instance)?.exp();
        if batch.is_some() || self.concept_labels != ConceptLabels::Training {
            let labels = concept_labels(graph, captions)?;
            let labels = (labels * INVERSE_TEMPERATURE).softmax(1, None::<Kind>);
            weights = labels * self.label_weight + weights * (1.0 - self.label_weight);
        }
        let consensus = l2_normalize(&graph.matmul(&weights, &concepts), -1);
        Ok(fuse(self, &instance, &consensus, batch.map(|_| &weights)))
    }

    fn forward_scores(&self, graph: &Graph<'_>, images: &EncodedItems, captions: &EncodedItems) -> Result<Tensor> {
        if !graph.is_training() {
            return Ok(graph.matmul_transposed(&images.vectors, &captions.vectors));
        }
        let (start, width) = (fused_column(self)?, tensor_width(self.embed_size)?);
        let fused = |side: &EncodedItems| side.vectors.narrow(1, start, width);
        Ok(graph.matmul_transposed(&fused(images), &fused(captions)))
    }

    fn global_losses(
        &self,
        graph: &Graph<'_>,
        images: &EncodedItems,
        captions: &EncodedItems,
        context: GlobalLossContext<'_>,
    ) -> Result<AuxiliaryLossTensors> {
        let (start, width) = (fused_column(self)?, tensor_width(self.embed_size)?);
        let weights = start + 3 * width;
        let loss = context.warm_up.unwrap_or(&self.level_loss);
        let level = |level: i64| {
            let [v, t] = [images, captions].map(|side| side.vectors.narrow(1, start + level * width, width));
            let scores = graph.matmul_transposed(&v, &t);
            let negatives = Negatives::new(&scores, context.masked);
            loss.value(&LossInput { scores: &scores, negatives: &negatives, memory_bank: None, scalars: &[] })
        };
        let concepts = images.vectors.size()[1] - weights;
        let [log_v, t] = [images, captions].map(|side| side.vectors.narrow(1, weights, concepts));
        // A weight that is 0 in its precision has no part in the divergence.
        let divergence = (&t * (t.clamp_min(1e-30).log() - log_v)).sum(None::<Kind>);
        Ok(vec![
            ("instance", level(1) * self.instance_weight),
            ("consensus", level(2) * self.consensus_weight),
            ("concepts", divergence * self.concept_weight),
        ])
    }
}
