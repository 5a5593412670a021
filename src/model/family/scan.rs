//! SCAN: stacked cross attention between regions and words.
//!
//! Lee, Chen, Hua, Hu, He, "Stacked Cross Attention for Image-Text Matching", ECCV 2018.
//!
//! Regions: linear → L2 norm. Words: word vectors → GRU, both directions averaged → L2 norm. `<start>` and `<end>` are
//! words. The score is stacked cross attention between the regions of an image and the words of a caption.

use az::SaturatingAs;
use tch::{Kind, Tensor};

use crate::family::attention::{EPSILON, NEGATIVE_SLOPE, WordAttention, attention};
use crate::family::autograd::{Differentiable, StepBatch};
use crate::family::encode::{EncodedItems, PaddedSets, fill_padding};
use crate::family::graph::{CaptionGru, Graph, l2_normalize, leaky_relu};
use crate::family::image_rows::REGION_LAYER;
use crate::family::parameters::{ParameterSpec, tensor_width};
use crate::family::published::{CheckpointLayout, CheckpointShapes};
use crate::tensor_slices::{as_slice, is_f32_slice};
use pairloom_base::error::Result;
use pairloom_kernels::cross_attention::{AttentionMemory, CrossAttention, CrossProducts, relevances};
use pairloom_spec::family::scan::{
    AttentionActivation, AttentionDirection, PublishedScanSettings, RelevanceAggregation, ScanSettings,
};
use pairloom_spec::input_spec::InputSpec;

/// Word vectors and GRU of captions.
fn caption_gru(settings: &ScanSettings) -> CaptionGru {
    CaptionGru { word: settings.word_dim, state: settings.embed_size, bidirectional: settings.bidirectional }
}

impl Differentiable for ScanSettings {
    const CHECKPOINT_LAYOUT: Option<CheckpointLayout<'static>> = Some(LAYOUT);

    /// The products of a block are in the cache, not the attended vectors, so larger blocks are faster.
    const SCORE_BLOCK: [usize; 2] = [32, 64];

    /// The linear layer of regions (Xavier, zero bias), then the word vectors and the GRU of captions.
    fn parameter_specs(&self, data: &InputSpec) -> Result<Vec<ParameterSpec>> {
        let (image, joint) = (tensor_width(data.image)?, tensor_width(self.embed_size)?);
        let mut all = ParameterSpec::linear(REGION_LAYER, joint, image).to_vec();
        all.extend(caption_gru(self).parameter_specs(data)?);
        Ok(all)
    }

    fn published_settings(published: &PublishedScanSettings, shapes: &CheckpointShapes<'_>) -> Self {
        Self {
            embed_size: shapes.joint_width(),
            word_dim: shapes.word_width(),
            bidirectional: published.bidirectional,
            cross_attention: published.cross_attention,
            activation: published.activation,
            lambda_softmax: published.lambda_softmax,
            aggregation: published.aggregation,
            lambda_lse: published.lambda_lse,
        }
    }

    fn values_per_word(&self, images: &EncodedItems) -> i64 {
        images.padded_rows()
    }

    fn forward_images(&self, graph: &Graph<'_>, images: EncodedItems, _: StepBatch<'_>) -> Result<EncodedItems> {
        let vectors = l2_normalize(&graph.linear(REGION_LAYER, &images.vectors)?, -1);
        Ok(images.with_vectors(vectors))
    }

    fn forward_captions(&self, graph: &Graph<'_>, captions: &[&[i32]], _: StepBatch<'_>) -> Result<EncodedItems> {
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

// Stacked cross attention of sets of vectors.
//
// With unit vectors of regions and words, queries `q` attend to contexts `c`: words to regions for `t2i`, regions to
// words for `i2t`.
//
// ```text
// s_cq = cos(c, q)      p_cq = attention of q to c, with the inverse temperature λ₁
// r_q = cos(q, Σ_c p_cq · c) = Σ_c p_cq · s_cq / √(pᵀ G p), G = products of the contexts with each other
// ```
//
// The attended vectors Σ p · c are never formed: `G` has one value where they have a whole vector. The score aggregates
// `r_q` over the queries.

/// Scores images with captions, `[n, m]`, in both cases sets of unit vectors.
///
/// Memory: for n images of R regions and m captions of L words, padded, about a dozen tensors of n·R·m·L values with
/// gradient.
fn scores(settings: &ScanSettings, graph: &Graph<'_>, images: &EncodedItems, captions: &EncodedItems) -> Tensor {
    if let Some(scores) = fused_scores(settings, graph, images, captions) {
        return scores;
    }
    let (regions, words) = (images.padded(), captions.padded());
    match settings.cross_attention {
        AttentionDirection::T2i => attend(settings, graph, &regions, &words),
        AttentionDirection::I2t => attend(settings, graph, &words, &regions).tr(),
    }
}

/// Attention between the words of one caption and the regions of one image.
fn words_to_regions(
    settings: &ScanSettings,
    graph: &Graph<'_>,
    image: &EncodedItems,
    caption: &EncodedItems,
) -> WordAttention {
    let (regions, words) = (image.padded(), caption.padded());
    let attention =
        |contexts, queries| products_and_attention(settings, graph, contexts, queries).1.squeeze_dim(2).squeeze_dim(0);
    let direction = settings.cross_attention;
    let weights = match direction {
        AttentionDirection::T2i => attention(&regions, &words).tr(),
        AttentionDirection::I2t => attention(&words, &regions),
    };
    WordAttention { weights, direction }
}

/// Cosines of contexts and queries, and the attention of the queries, both `[a, c, b, q]`.
fn products_and_attention(
    settings: &ScanSettings,
    graph: &Graph<'_>,
    contexts: &PaddedSets,
    queries: &PaddedSets,
) -> (Tensor, Tensor) {
    let ([a, c, d], [b, q]) = (contexts.size(), [queries.size()[0], queries.size()[1]]);
    let all_contexts = contexts.vectors.view([a * c, d]);
    // Padding has products of 0, so it does not enter the norms over queries.
    let products = graph.matmul_transposed(&all_contexts, &queries.vectors.view([b * q, d])).view([a, c, b, q]);
    let active = match settings.activation {
        AttentionActivation::Relu => products.relu(),
        AttentionActivation::LeakyRelu => leaky_relu(&products, NEGATIVE_SLOPE),
    };
    let attention = attention(&active, contexts.is_padding.as_ref(), settings.softmax_scale());
    (products, attention)
}

/// Scores `a` sets of contexts with `b` sets of queries, `[a, b]`.
fn attend(settings: &ScanSettings, graph: &Graph<'_>, contexts: &PaddedSets, queries: &PaddedSets) -> Tensor {
    let ([a, c, _], [b, q]) = (contexts.size(), [queries.size()[0], queries.size()[1]]);
    let (products, attention) = products_and_attention(settings, graph, contexts, queries);
    let along = (&attention * &products).sum_dim_intlist(1i64, false, None::<Kind>);
    let grams = graph.matmul(&contexts.vectors, &contexts.vectors.transpose(1, 2));
    let attention = attention.view([a, c, b * q]);
    let squares = (&attention * graph.matmul(&grams, &attention)).sum_dim_intlist(1i64, false, None::<Kind>);
    let norms = squares.clamp_min(EPSILON * EPSILON).sqrt().view([a, b, q]);
    aggregate(settings, &(along / norms), queries)
}

/// Aggregates relevances `[a, b, q]` over the queries.
fn aggregate(settings: &ScanSettings, relevances: &Tensor, queries: &PaddedSets) -> Tensor {
    let is_padding = queries.is_padding.as_ref().map(|padding| padding.unsqueeze(0));
    let fill = |value: f64, scaled: Tensor| fill_padding(scaled, is_padding.as_ref(), value);
    let sum = || fill(0.0, relevances.shallow_clone()).sum_dim_intlist(2i64, false, None::<Kind>);
    match settings.aggregation {
        RelevanceAggregation::Sum => sum(),
        RelevanceAggregation::Mean => sum() / queries.lengths(),
        RelevanceAggregation::Max => fill(f64::NEG_INFINITY, relevances.shallow_clone()).amax(2i64, false),
        RelevanceAggregation::LogSumExp => {
            fill(f64::NEG_INFINITY, relevances * settings.aggregation_scale()).logsumexp(2, false)
                / settings.aggregation_scale()
        }
    }
}

/// Scores images with captions, `[n, m]`, on the calling thread; `None` if libtorch must compute them: with gradient,
/// on a GPU, or in f64.
///
/// Memory: the products of all regions with all words.
fn fused_scores(
    settings: &ScanSettings,
    graph: &Graph<'_>,
    images: &EncodedItems,
    captions: &EncodedItems,
) -> Option<Tensor> {
    if graph.is_training() || ![images, captions].iter().all(|items| is_f32_slice(&items.vectors)) {
        return None;
    }
    let transposed = settings.cross_attention == AttentionDirection::I2t;
    let (contexts, queries) = if transposed { (captions, images) } else { (images, captions) };
    let products = graph.matmul_transposed(&contexts.vectors, &queries.vectors);
    let (products, stride) = (as_slice(&products), queries.vectors.size()[0].saturating_as::<usize>());
    let (n, m) = (contexts.len(), queries.len());
    let lengths = counts(queries);
    let mut scores = vec![0.0; n * m];
    let (mut memory, mut found) = (AttentionMemory::default(), Vec::new());
    let mut row = 0;
    for (context, count) in counts(contexts).into_iter().enumerate() {
        let vectors = contexts.slice(context..context + 1).vectors;
        let gram = graph.matmul_transposed(&vectors, &vectors);
        let mut column = 0;
        for (query, &length) in lengths.iter().enumerate() {
            found.resize(length, 0.0);
            let products = &products[row * stride + column..];
            let sets = CrossProducts { products, stride, queries: length, gram: as_slice(&gram), contexts: count };
            relevances(form(settings), sets, &mut memory, &mut found);
            scores[if transposed { query * n + context } else { context * m + query }] =
                aggregate_slice(settings, &found);
            column += length;
        }
        row += count;
    }
    Some(Tensor::from_slice(&scores).view([images.len(), captions.len()].map(SaturatingAs::saturating_as::<i64>)))
}

#[expect(clippy::cast_possible_truncation, reason = "the kernel computes in f32")]
fn form(settings: &ScanSettings) -> CrossAttention {
    let negative_slope = match settings.activation {
        AttentionActivation::Relu => 0.0,
        AttentionActivation::LeakyRelu => NEGATIVE_SLOPE as f32,
    };
    CrossAttention { negative_slope, lambda: settings.softmax_scale() as f32 }
}

/// Aggregates the relevances of a pair into its score. NaN if one of them is NaN.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "scores are f32, words are few")]
fn aggregate_slice(settings: &ScanSettings, relevances: &[f32]) -> f32 {
    let sum = || relevances.iter().sum::<f32>();
    let most = || relevances.iter().copied().fold(f32::NEG_INFINITY, |most, r| if r > most { r } else { most });
    let largest = || if sum().is_nan() { f32::NAN } else { most() };
    match settings.aggregation {
        RelevanceAggregation::Sum => sum(),
        RelevanceAggregation::Mean => sum() / relevances.len() as f32,
        RelevanceAggregation::Max => largest(),
        RelevanceAggregation::LogSumExp => {
            let (most, lambda) = (largest(), settings.aggregation_scale() as f32);
            let total = relevances.iter().map(|r| (lambda * (r - most)).exp()).sum::<f32>();
            most + total.ln() / lambda
        }
    }
}

/// Number of vectors of each item.
fn counts(items: &EncodedItems) -> Vec<usize> {
    items.counts().into_iter().map(SaturatingAs::saturating_as::<usize>).collect()
}

/// Layout of the checkpoints.
const LAYOUT: CheckpointLayout<'static> = CheckpointLayout {
    wanted: "expected a model of SCAN: a linear layer for regions, word vectors and a GRU for captions",
    renamed: &[],
    unused: &[],
};

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::family::autograd::AutogradConfig;
    use crate::family::model::Family;
    use crate::family::published::PUBLISHED_REGIONS;
    use crate::family::registry::ModelConfig;

    /// The names of the parameters are those of the published checkpoints: `golden_tests` compares scores with PyTorch.
    #[test]
    fn widths_follow_from_the_tensors() {
        for bidirectional in [false, true] {
            let settings = ScanSettings {
                embed_size: 4,
                word_dim: 3,
                bidirectional,
                activation: AttentionActivation::LeakyRelu,
                aggregation: RelevanceAggregation::LogSumExp,
                ..ScanSettings::default()
            };
            let data = InputSpec::for_regions(PUBLISHED_REGIONS, 5, 7);
            let config = AutogradConfig { data, settings };
            let model = ModelConfig::Scan(config.clone()).create(1, Device::Cpu).expect("a model");
            let bytes = model.parameters().to_bytes().expect("a file");
            let settings = PublishedScanSettings { bidirectional, ..PublishedScanSettings::default() };
            let published = AutogradConfig::<ScanSettings>::read_published(&settings, &bytes, 7).expect("a model");
            assert_eq!(published.config, config);
            let error = AutogradConfig::<ScanSettings>::read_published(&settings, &bytes, 8)
                .expect_err("other words")
                .to_string();
            assert!(error.contains("`txt_enc.embed.weight` has shape [7, 3], expected [8, 3]"), "{error}");
        }
    }
}
