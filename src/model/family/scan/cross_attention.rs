//! Stacked cross attention of sets of vectors.
//!
//! With unit vectors of regions and words, queries `q` attend to contexts `c`: words to regions for `t2i`, regions to
//! words for `i2t`.
//!
//! ```text
//! s_cq = cos(c, q)      p_cq = attention of q to c, with the inverse temperature λ₁
//! r_q = cos(q, Σ_c p_cq · c) = Σ_c p_cq · s_cq / √(pᵀ G p), G = products of the contexts with each other
//! ```
//!
//! The attended vectors Σ p · c are never formed: `G` has one value where they have a whole vector. The score aggregates
//! `r_q` over the queries.

use tch::{Kind, Tensor};

use super::fused_scores::fused_scores;
use super::settings::{AttentionActivation, RelevanceAggregation, ScanSettings};
use crate::family::attention::{AttentionDirection, EPSILON, NEGATIVE_SLOPE, WordAttention, attention};
use crate::family::encoded_items::{EncodedItems, PaddedSets, fill_padding};
use crate::family::graph::{Graph, leaky_relu};

/// Scores images with captions, `[n, m]`, in both cases sets of unit vectors.
///
/// Memory: for n images of R regions and m captions of L words, padded, about a dozen tensors of n·R·m·L values with
/// gradient.
pub(super) fn scores(
    settings: &ScanSettings,
    graph: &Graph<'_>,
    images: &EncodedItems,
    captions: &EncodedItems,
) -> Tensor {
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
pub(super) fn words_to_regions(
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
