//! Scores without gradient, by this project's kernel: attention, norms and relevances while they are in the cache.

use az::SaturatingAs;
use tch::Tensor;

use super::settings::{AttentionActivation, RelevanceAggregation, ScanSettings};
use crate::family::attention::{AttentionDirection, NEGATIVE_SLOPE};
use crate::family::encoded_items::EncodedItems;
use crate::family::graph::Graph;
use crate::tensor_slices::{as_slice, is_f32_slice};
use pairloom_kernels::cross_attention::{AttentionMemory, CrossAttention, CrossProducts, relevances};

/// Scores images with captions, `[n, m]`, on the calling thread; `None` if libtorch must compute them: with gradient,
/// on a GPU, or in f64.
///
/// Memory: the products of all regions with all words.
pub(super) fn fused_scores(
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
