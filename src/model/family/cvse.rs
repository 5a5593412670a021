//! CVSE: concepts that captions have in common, as a graph beside the vectors of an image and a caption.
//!
//! Wang, Zhang, Ji, Pang, Ma, "Consensus-Aware Visual-Semantic Embedding for Image-Text Matching", ECCV 2020.
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

use crate::family::attention::GlobalAttention;
use crate::family::autograd::{Differentiable, StepBatch};
use crate::family::concept_graph::{CONCEPT_ADJACENCY, CONCEPT_VECTORS, concept_labels, concept_specs, own_words};
use crate::family::encode::EncodedItems;
use crate::family::graph::{AuxiliaryLossTensors, CaptionGru, Graph, l2_normalize, leaky_relu};
use crate::family::image_rows::REGION_LAYER;
use crate::family::model::GlobalLossContext;
use crate::family::parameters::{ParameterInit, ParameterSpec, tensor_width};
use crate::family::published::{CheckpointLayout, CheckpointShapes, PUBLISHED_REGIONS};
use crate::loss::{LossFunction, LossInput, Negatives};
use pairloom_base::error::Result;
use pairloom_spec::family::cvse::{ConceptLabels, CvseSettings, PublishedCvseSettings};
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
    const CHECKPOINT_LAYOUT: Option<CheckpointLayout<'static>> = Some(LAYOUT);

    /// The linear layer of regions, word vectors and GRU, the attention of both sides, that to concepts, the graph
    /// convolutions, and the concepts. Linear layers are Xavier with zero bias.
    fn parameter_specs(&self, data: &InputSpec) -> Result<Vec<ParameterSpec>> {
        let (image, joint) = (tensor_width(data.image)?, tensor_width(self.embed_size)?);
        let (word, places) = (tensor_width(self.word_dim)?, tensor_width(data.regions.unwrap_or(1))?);
        let mut all = ParameterSpec::linear(REGION_LAYER, joint, image).to_vec();
        all.extend(caption_gru(self).parameter_specs(data)?);
        all.extend(image_attention(self).parameter_specs(joint, places));
        all.extend(caption_attention(self).parameter_specs(joint, places));
        all.extend(consensus_attention_specs(IMAGE_CONSENSUS, joint));
        all.extend(consensus_attention_specs(CAPTION_CONSENSUS, joint));
        all.extend(concept_convolution_specs(word, joint));
        all.extend(concept_specs(data, word)?);
        Ok(all)
    }

    fn published_settings(published: &PublishedCvseSettings, shapes: &CheckpointShapes<'_>) -> Self {
        Self {
            embed_size: shapes.joint_width(),
            word_dim: shapes.word_width(),
            bidirectional: shapes.is_bidirectional(),
            fusion_weight: published.fusion_weight,
            label_weight: published.label_weight,
            concept_labels: published.concept_labels,
            consensus_score_weight: published.consensus_score_weight,
            ..Self::default()
        }
    }

    fn published_data(shapes: &CheckpointShapes<'_>, words: usize) -> InputSpec {
        let places = shapes.batch_norm_width("V_att.embedding_1.1").unwrap_or(PUBLISHED_REGIONS);
        let concepts = [CONCEPT_ADJACENCY, CONCEPT_VECTORS].iter().find_map(|name| shapes.size(name, 0)).or(Some(1));
        InputSpec { concepts, ..InputSpec::for_regions(places, shapes.image_width(), words) }
    }

    fn forward_images(&self, graph: &Graph<'_>, images: EncodedItems, batch: StepBatch<'_>) -> Result<EncodedItems> {
        let regions = images.with_vectors(l2_normalize(&graph.linear(REGION_LAYER, &images.vectors)?, -1));
        let instance = image_attention(self).forward(graph, &regions, batch)?;
        let concepts = concept_vectors(graph)?;
        let weights = log_concept_weights(self, graph, IMAGE_CONSENSUS, &concepts, &instance)?;
        let consensus = l2_normalize(&graph.matmul(&weights.exp(), &concepts), -1);
        Ok(fuse(self, &instance, &consensus, batch.map(|_| &weights)))
    }

    fn forward_captions(&self, graph: &Graph<'_>, captions: &[&[i32]], batch: StepBatch<'_>) -> Result<EncodedItems> {
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

// Consensus vectors: sums of concept vectors, weighted by attention.
//
// ```text
// z = L2( Â · lrelu( Â · E · W₁ ) · W₂ )          Â = (A D)ᵀ D, D = diag(Σ_j A_ij)^(−1/2)       concept vectors
// p = softmax over concepts c of 10 · w · ( tanh(BN(U z_c)) ∘ tanh(BN(V y)) )                   weights for a vector y
// consensus vector = L2( Σ_c p_c · z_c )
// ```
//
// A is the adjacency of the concept graph and E holds the input vectors of the concepts. Neither is trained.

/// Weights of the graph convolutions.
const CONVOLUTIONS: [&str; 2] = ["C_GCN.gc1.weight", "C_GCN.gc2.weight"];

/// Slope of the leaky ReLU between the graph convolutions for negative values.
const NEGATIVE_SLOPE: f64 = 0.2;

/// Inverse temperature of the softmax of predicted weights and of labels.
const INVERSE_TEMPERATURE: f64 = 10.0;

/// Specifications of the parameters of the graph convolutions, for input vectors of `input` and concept vectors of
/// `width`.
fn concept_convolution_specs(input: i64, width: i64) -> [ParameterSpec; 2] {
    let convolution = |name: &str, from: i64, to: i64| {
        #[expect(clippy::cast_precision_loss, reason = "widths are below 2^31")]
        ParameterSpec::new(name, &[from, to], ParameterInit::Uniform(1.0 / (to as f64).sqrt()))
    };
    [convolution(CONVOLUTIONS[0], input, width / 2), convolution(CONVOLUTIONS[1], width / 2, width)]
}

/// Specifications of the parameters of the attention `name` to concepts of `width`.
fn consensus_attention_specs(name: &str, width: i64) -> Vec<ParameterSpec> {
    let mut all = Vec::new();
    for gate in ["embedding_1", "embedding_2"] {
        all.extend(ParameterSpec::linear(&format!("{name}.{gate}.0"), width, width));
        all.extend(ParameterSpec::batch_norm(&format!("{name}.{gate}.1"), width));
    }
    all.extend(ParameterSpec::linear(&format!("{name}.embedding_3.0"), 1, width));
    all
}

/// Concept vectors z, `[c, d]`.
fn concept_vectors(graph: &Graph<'_>) -> Result<Tensor> {
    let adjacency = graph.get(CONCEPT_ADJACENCY)?;
    let d = adjacency.sum_dim_intlist(1i64, false, None::<Kind>).rsqrt();
    let adjacency = (adjacency * d.unsqueeze(0)).tr() * d.unsqueeze(0);
    let [first, second] = CONVOLUTIONS.map(|name| graph.get(name));
    let hidden = graph.matmul(&adjacency, &graph.matmul(graph.get(CONCEPT_VECTORS)?, first?));
    let hidden = leaky_relu(&hidden, NEGATIVE_SLOPE);
    Ok(l2_normalize(&graph.matmul(&adjacency, &graph.matmul(&hidden, second?)), -1))
}

/// Logarithms of the concept weights p for the vectors `y`, `[n, c]`.
fn log_concept_weights(
    settings: &CvseSettings,
    graph: &Graph<'_>,
    name: &str,
    concepts: &Tensor,
    y: &Tensor,
) -> Result<Tensor> {
    let gate = |layer: &str, rows: &Tensor| -> Result<Tensor> {
        let rows = graph.linear(&format!("{name}.{layer}.0"), rows)?;
        Ok(graph.batch_norm_of_rows(&format!("{name}.{layer}.1"), &rows, settings.batch_norm)?.tanh())
    };
    let concept_scores = gate("embedding_1", concepts)? * graph.get(&format!("{name}.embedding_3.0.weight"))?;
    // The softmax is sharp, so this small product is not rounded to bf16 in mixed precision.
    let logits = gate("embedding_2", y)?.matmul(&concept_scores.tr());
    let logits = logits + graph.get(&format!("{name}.embedding_3.0.bias"))?;
    Ok((logits * INVERSE_TEMPERATURE).log_softmax(1, None::<Kind>))
}

/// Layout of the checkpoints. Each layer of an attention is stored twice; some layers are not used.
const LAYOUT: CheckpointLayout<'static> = CheckpointLayout {
    wanted: "expected a model of CVSE with its concepts: `concepts.vectors` and `concepts.of_words` come from the files \
             beside the checkpoint",
    renamed: &[],
    unused: &[
        "V_att.fc",
        "V_att.embedding_2_2.",
        "T_att.fc",
        "V_consensus_att.fc",
        "T_consensus_att.fc",
        "C_GCN.adj_O_",
        "C_GCN.joint_att_emb.",
        "fusing.",
    ],
};
