//! SGR and SAF: reasoning over a graph of alignments, and filtration of alignments by attention.
//!
//! Diao, Zhang, Ma, Lu, "Similarity Reasoning and Filtration for Image-Text Matching", AAAI 2021. Their ensemble is
//! SGRAF, the mean of the scores of one model of each.
//!
//! ```text
//! regions: linear → L2 norm ─┬─► global vector of the image   ─► global alignment ─┐
//! words:   GRU → L2 norm ────┼─► global vector of the caption ─►                   ├─► SGR or SAF ─► linear ─► sigmoid
//!                            └─► attention of each word to the regions ─► an alignment for each word ─┘
//! ```

use tch::{Kind, Tensor};

use self::difference_products::DifferenceInputs;
use crate::family::attention::{EPSILON, GlobalAttention, NEGATIVE_SLOPE, WordAttention, attention};
use crate::family::autograd::{Differentiable, StepBatch};
use crate::family::batch_norm::BatchNormAxes;
use crate::family::encode::{EncodedItems, PaddedSets, fill_padding};
use crate::family::graph::{CaptionGru, Graph, l2_normalize, leaky_relu};
use crate::family::image_rows::REGION_LAYER;
use crate::family::parameters::{ParameterSpec, tensor_width};
use crate::family::published::{CheckpointLayout, CheckpointShapes, PUBLISHED_REGIONS};
use pairloom_base::error::Result;
use pairloom_spec::family::scan::AttentionDirection;
use pairloom_spec::family::sgraf::{AlignmentModule, PublishedSgrafSettings, SgrafSettings};
use pairloom_spec::input_spec::InputSpec;

mod difference_products;

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
    const CHECKPOINT_LAYOUT: Option<CheckpointLayout<'static>> = Some(LAYOUT);

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

    fn published_settings(_: &PublishedSgrafSettings, shapes: &CheckpointShapes<'_>) -> Self {
        let is_saf = shapes.has_prefix("sim_enc.SAF_module.");
        let last_step = shapes.largest_number("sim_enc.SGR_module.");
        let widths = [("sim_enc.sim_eval_w.weight", 1), ("sim_enc.sim_tranloc_w.weight", 0)];
        let similarity_dim = widths.iter().find_map(|&(name, dimension)| shapes.size(name, dimension));
        let defaults = Self::default();
        Self {
            module: if is_saf { AlignmentModule::Saf } else { AlignmentModule::Sgr },
            embed_size: shapes.joint_width(),
            word_dim: shapes.word_width(),
            bidirectional: shapes.is_bidirectional(),
            similarity_dim: similarity_dim.unwrap_or(1),
            reasoning_steps: if is_saf { defaults.reasoning_steps } else { last_step.map_or(1, |last| last + 1) },
            ..defaults
        }
    }

    fn published_data(shapes: &CheckpointShapes<'_>, words: usize) -> InputSpec {
        let regions = shapes.batch_norm_width("sim_enc.v_global_w.embedding_local.1").unwrap_or(PUBLISHED_REGIONS);
        InputSpec::for_regions(regions, shapes.image_width(), words)
    }

    /// The alignments of every module, and the attended vectors where libtorch computes the layer of differences. The
    /// blocks do not depend on who computes it.
    fn values_per_word(&self, images: &EncodedItems) -> i64 {
        let width = self.embed_size.saturating_add(self.similarity_dim);
        i64::try_from(images.len().saturating_mul(width)).unwrap_or(i64::MAX).max(images.padded_rows())
    }

    fn forward_images(&self, graph: &Graph<'_>, images: EncodedItems, batch: StepBatch<'_>) -> Result<EncodedItems> {
        let regions = images.with_vectors(l2_normalize(&graph.linear(REGION_LAYER, &images.vectors)?, -1));
        let global = image_attention(self).forward(graph, &regions, batch)?;
        Ok(regions.with_first_vectors(&global))
    }

    fn forward_captions(&self, graph: &Graph<'_>, captions: &[&[i32]], batch: StepBatch<'_>) -> Result<EncodedItems> {
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

// Alignments of images and captions, and the scores that follow from them.
//
// ```text
// c_w = attention of word e_w to the regions, L2-normalised       s_w = L2(W_loc · (c_w − e_w)²)
// v, t = global vectors of image and caption                      s_0 = L2(W_glo · (v − t)²)
// SGR: each step  s ← ReLU(W · softmax(Q s · (K s)ᵀ) s) over all alignments; the vector is s_0
// SAF: β = σ(BN(w · s)), divided by its sum; the vector is L2(Σ β s)
// score = σ(w · vector)
// ```

/// Norm from which on a vector is normalised to length 1, as by [`l2_normalize`].
const SMALLEST_NORM: f64 = 1e-12;

/// Names of the linear layers.
const LOCAL: &str = "sim_enc.sim_tranloc_w";
const GLOBAL: &str = "sim_enc.sim_tranglo_w";
const EVALUATION: &str = "sim_enc.sim_eval_w";
const FILTER: &str = "sim_enc.SAF_module.attn_sim_w";
const FILTER_BATCH_NORM: &str = "sim_enc.SAF_module.bn";

/// Layers of a reasoning step.
fn reasoning_layers(step: usize) -> [String; 3] {
    ["graph_query_w", "graph_key_w", "sim_graph_w"].map(|layer| format!("sim_enc.SGR_module.{step}.{layer}"))
}

/// Queries of alignments `x`, `[a, b, asking, s]`, whose products with the alignments themselves, in place of their keys,
/// give the same attention:
///
/// ```text
/// (Wq x + bq)ᵀ (Wk y + bk) = (Wkᵀ Wq x + Wkᵀ bq)ᵀ y + a term that is the same for all y
/// ```
///
/// The softmax over y does not depend on that term, so `bk` has no gradient.
fn queries_for_vectors(graph: &Graph<'_>, [query, key]: [&str; 2], x: &Tensor) -> Result<Tensor> {
    let part = |layer: &str, part: &str| graph.get(&format!("{layer}.{part}"));
    let key = part(key, "weight")?.tr();
    let weight = key.matmul(part(query, "weight")?);
    let bias = key.mv(part(query, "bias")?);
    let s = x.size()[3];
    Ok((graph.matmul_transposed(&x.reshape([-1, s]), &weight) + bias).view_as(x))
}

/// Alignments of images with captions.
struct Alignments {
    /// The global ones, `[a, b, s]`, of length 1.
    global: Tensor,
    /// The ones of words, `[a, b, words, s]`, before they are divided by their norms.
    local: Tensor,
    /// Norms of `local`, `[a, b, words]`, not 0.
    norms: Tensor,
    /// Padding of the captions, `[1, b, 1 + words]`.
    is_padding: Option<Tensor>,
}

/// Specifications of the parameters of the score, for vectors of `width` and alignments of `similarity`.
fn score_specs(settings: &SgrafSettings, width: i64, similarity: i64) -> Vec<ParameterSpec> {
    let mut all = ParameterSpec::linear(LOCAL, similarity, width).to_vec();
    all.extend(ParameterSpec::linear(GLOBAL, similarity, width));
    all.extend(ParameterSpec::linear(EVALUATION, 1, similarity));
    match settings.module {
        AlignmentModule::Sgr => {
            let layers = (0..settings.reasoning_steps).flat_map(reasoning_layers);
            all.extend(layers.flat_map(|name| ParameterSpec::linear(&name, similarity, similarity)));
        }
        AlignmentModule::Saf => {
            all.extend(ParameterSpec::linear(FILTER, 1, similarity));
            all.extend(ParameterSpec::batch_norm(FILTER_BATCH_NORM, 1));
        }
    }
    all
}

/// Scores images with captions, `[n, m]`. The first vector of each set is its global vector.
///
/// Memory with gradient, for n images and m captions of L words, padded: about ten tensors of n·m·L·s values, and
/// where libtorch computes the layer of differences, three of n·m·L·d more.
fn scores(
    settings: &SgrafSettings,
    graph: &Graph<'_>,
    images: &EncodedItems,
    captions: &EncodedItems,
) -> Result<Tensor> {
    let alignments = alignments(settings, graph, &images.padded(), &captions.padded())?;
    let vectors = match settings.module {
        AlignmentModule::Sgr => reason(settings, graph, &alignments)?,
        AlignmentModule::Saf => filter(settings, graph, &alignments)?,
    };
    Ok(graph.linear_of_rows(EVALUATION, &vectors)?.squeeze_dim(2).sigmoid())
}

fn alignments(
    settings: &SgrafSettings,
    graph: &Graph<'_>,
    images: &PaddedSets,
    captions: &PaddedSets,
) -> Result<Alignments> {
    let ([a, places, d], [b, length, _]) = (images.size(), captions.size());
    let regions = images.vectors.narrow(1, 1, places - 1).contiguous();
    let words = captions.vectors.narrow(1, 1, length - 1).reshape([-1, d]);
    let weights = normalized_attention(settings, graph, &regions, images.is_padding.as_ref(), &words, length - 1);
    let [layer, bias] = ["weight", "bias"].map(|part| graph.get(&format!("{LOCAL}.{part}")));
    let inputs = DifferenceInputs { weights: &weights, regions: &regions, words: &words, layer: layer?, bias: bias? };
    let local = inputs.output(graph).view([a, b, length - 1, -1]);
    let norms = local.norm_scalaropt_dim(2, [3i64].as_slice(), false).clamp_min(SMALLEST_NORM);
    let global = images.vectors.select(1, 0).unsqueeze(1) - captions.vectors.select(1, 0).unsqueeze(0);
    let global = l2_normalize(&graph.linear_of_rows(GLOBAL, &global.square())?, -1);
    let is_padding = captions.is_padding.as_ref().map(|padding| padding.unsqueeze(0));
    Ok(Alignments { global, local, norms, is_padding })
}

/// Attention of the words of one caption to the regions of one image. The first vector of each is the global one.
fn words_to_regions(
    settings: &SgrafSettings,
    graph: &Graph<'_>,
    image: &EncodedItems,
    caption: &EncodedItems,
) -> WordAttention {
    let local = |items: &EncodedItems| {
        let vectors = items.padded().vectors;
        vectors.narrow(1, 1, vectors.size()[1] - 1)
    };
    let (regions, words) = (local(image), local(caption).squeeze_dim(0));
    let length = words.size()[0];
    let weights =
        attention_of_words(settings, graph, &regions, None, &words, length).squeeze_dim(2).squeeze_dim(0).tr();
    WordAttention { weights, direction: AttentionDirection::T2i }
}

/// Attention of every word, `[b * length, d]`, to the regions of every image, `[a, r, b, length]`.
fn attention_of_words(
    settings: &SgrafSettings,
    graph: &Graph<'_>,
    regions: &Tensor,
    is_padding: Option<&Tensor>,
    words: &Tensor,
    length: i64,
) -> Tensor {
    let [a, r, d] = <[i64; 3]>::try_from(regions.size()).unwrap_or_default();
    // Padding has products of 0, so it does not enter the norms over words.
    let products = graph.matmul_transposed(&regions.view([a * r, d]), words).view([a, r, -1, length]);
    attention(&leaky_relu(&products, NEGATIVE_SLOPE), is_padding, settings.lambda_softmax)
}

/// Attention of every word to the regions of every image, `[a, r, b * length]`, divided by the norms of the attended
/// vectors.
///
/// The norm of Σ p · c is √(pᵀ G p), where G has the products of the regions with each other. So the weights are
/// normalised in place of the vectors, which are larger.
fn normalized_attention(
    settings: &SgrafSettings,
    graph: &Graph<'_>,
    regions: &Tensor,
    is_padding: Option<&Tensor>,
    words: &Tensor,
    length: i64,
) -> Tensor {
    let (a, r) = (regions.size()[0], regions.size()[1]);
    let is_padding = is_padding.map(|padding| padding.narrow(1, 1, r));
    let attention = attention_of_words(settings, graph, regions, is_padding.as_ref(), words, length).view([a, r, -1]);
    let grams = graph.matmul(regions, &regions.transpose(1, 2));
    let squares = (&attention * graph.matmul(&grams, &attention)).sum_dim_intlist(1i64, true, None::<Kind>);
    attention * squares.clamp_min(SMALLEST_NORM * SMALLEST_NORM).rsqrt()
}

/// Similarity graph reasoning: the global alignment after all steps, `[a, b, s]`.
fn reason(settings: &SgrafSettings, graph: &Graph<'_>, alignments: &Alignments) -> Result<Tensor> {
    let local = &alignments.local / alignments.norms.unsqueeze(3);
    let mut vectors = Tensor::cat(&[alignments.global.unsqueeze(2), local], 2);
    let [a, b, nodes, s] = <[i64; 4]>::try_from(vectors.size()).unwrap_or_default();
    let no_key = alignments.is_padding.as_ref().map(|padding| padding.unsqueeze(2));
    for step in 0..settings.reasoning_steps {
        let [query, key, update] = reasoning_layers(step);
        // Only the global alignment is used after the last step.
        let asking = if step + 1 == settings.reasoning_steps { 1 } else { nodes };
        let queries = queries_for_vectors(graph, [&query, &key], &vectors.narrow(2, 0, asking))?;
        let all = vectors.reshape([a * b, nodes, s]);
        let logits = graph.matmul(&queries.view([a * b, asking, s]), &all.transpose(1, 2)).view([a, b, asking, nodes]);
        let logits = fill_padding(logits, no_key.as_ref(), f64::NEG_INFINITY);
        let edges = logits.softmax(3, None::<Kind>).view([a * b, asking, nodes]);
        let gathered = graph.matmul(&edges, &all).view([a, b, asking, s]);
        vectors = graph.linear_of_rows(&update, &gathered)?.relu();
    }
    Ok(vectors.select(2, 0))
}

/// Similarity attention filtration: the weighted sum of all alignments, `[a, b, s]`. The statistics of batch
/// normalisation are those of one caption with all images.
///
/// Alignments of words need the most memory of a step. So their weights are divided by their norms, in place of the
/// alignments themselves.
fn filter(settings: &SgrafSettings, graph: &Graph<'_>, alignments: &Alignments) -> Result<Tensor> {
    let Alignments { global, local, norms, is_padding } = alignments;
    let [a, b, words, s] = <[i64; 4]>::try_from(local.size()).unwrap_or_default();
    let layer = graph.get(&format!("{FILTER}.weight"))?.view([s]);
    let word_logits = local.view([-1, s]).mv(&layer).view_as(norms) / norms;
    let logits = Tensor::cat(&[global.matmul(&layer).unsqueeze(2), word_logits], 2);
    let logits = logits + graph.get(&format!("{FILTER}.bias"))?;
    let is_present = is_padding.as_ref().map(|padding| padding.logical_not().to_kind(logits.kind()));
    let axes = BatchNormAxes { over: &[0, 2], shape: &[1, 1, 1], present: is_present.as_ref() };
    let weights = graph.batch_norm(FILTER_BATCH_NORM, &logits, axes, settings.batch_norm)?.sigmoid();
    let weights = fill_padding(weights, is_padding.as_ref(), 0.0);
    let weights = &weights / (weights.sum_dim_intlist(2i64, true, None::<Kind>) + EPSILON);
    let word_logits = (weights.narrow(2, 1, words) / norms).view([a * b, 1, words]);
    let sums = word_logits.bmm(&local.view([a * b, words, s])).view([a, b, s]);
    Ok(l2_normalize(&(sums + weights.narrow(2, 0, 1) * global), -1))
}

/// Layout of the checkpoints.
const LAYOUT: CheckpointLayout<'static> = CheckpointLayout {
    wanted: "expected a model of SGR or SAF: `img_enc`, `txt_enc` and `sim_enc`",
    renamed: &[("txt_enc.cap_rnn.", "txt_enc.rnn.")],
    unused: &[],
};
