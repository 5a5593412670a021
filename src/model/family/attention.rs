//! Attention of words to regions, or of regions to words, as SCAN defines it, and attention with a gate that makes one
//! vector of a set.
//!
//! ```text
//! a_cq = f(s_cq) / (‖f(s_c·)‖₂ + 10⁻⁸)        p_cq = softmax over contexts c of λ · a_cq
//! ```
//!
//! `s_cq` is the cosine of context c and query q, and f a (leaky) ReLU. The norm is over the queries.

use tch::{Kind, Tensor};

use crate::family::batch_norm::BatchNormAxes;
use crate::family::encode::{EncodedItems, fill_padding};
use crate::family::graph::{Graph, l2_normalize};
use crate::family::model::LocalBatch;
use crate::family::parameters::ParameterSpec;
use pairloom_base::error::{Error, Result};
use pairloom_spec::family::BatchNormStatistics;

use pairloom_spec::family::scan::AttentionDirection;

/// Added to norms, as in the published code.
pub const EPSILON: f64 = 1e-8;

/// Slope of f for negative values, if it is a leaky ReLU.
pub const NEGATIVE_SLOPE: f64 = 0.1;

/// Attention between the words of a caption and the regions of an image.
#[derive(Debug)]
pub struct WordAttention {
    /// Weights, `[words, regions]`.
    pub weights: Tensor,
    /// Direction. For `t2i` the weights of a word sum to 1, for `i2t` those of a region.
    pub direction: AttentionDirection,
}

/// Attention p of each query to the contexts of a set, `[a, c, b, q]`, from `active` = f(s) of the same shape, with
/// inverse temperature `lambda`. Padded contexts, `[a, c]`, have no attention. Padded queries must be 0 in `active`, so
/// that they do not enter the norms.
pub fn attention(active: &Tensor, is_padding: Option<&Tensor>, lambda: f64) -> Tensor {
    let norms = active.norm_scalaropt_dim(2, [3i64].as_slice(), true) + EPSILON;
    let exponents = active * (norms.reciprocal() * lambda);
    let is_padding = is_padding.map(|padding| padding.unsqueeze(2).unsqueeze(3));
    fill_padding(exponents, is_padding.as_ref(), f64::NEG_INFINITY).softmax(1, None::<Kind>)
}

// Global vector of a set of vectors by attention with a gate.
//
// ```text
// m = mean of the vectors x_t, L2-normalised or not
// w = softmax over t of  common( tanh(local(x_t)) ∘ tanh(global(m)) )
// global vector = Σ w_t · x_t, L2-normalised
// ```
//
// `local`, `global` and `common` are linear layers; those of images have batch normalisation before tanh: for each place
// of a region over images and features, and for each feature of `global` over images.

/// Attention that forms the global vectors of one side.
#[derive(Debug, Clone, Copy)]
pub struct GlobalAttention<'s> {
    /// Names of the layers `local`, `global` and `common`, without the number of the layer in each.
    pub layers: [&'s str; 3],
    /// True if m is L2-normalised.
    pub normalizes_mean: bool,
    /// Statistics of batch normalisation; `None` for captions, which have none.
    pub batch_norm: Option<BatchNormStatistics>,
    /// Probability of dropout after tanh in training, and the random stream.
    pub dropout: (f64, u64),
}

impl GlobalAttention<'_> {
    /// Specifications of the parameters for vectors of `width`, and up to `places` regions of an image.
    pub fn parameter_specs(&self, width: i64, places: i64) -> Vec<ParameterSpec> {
        let [local, global, common] = self.layers;
        let mut all = ParameterSpec::linear(&format!("{local}.0"), width, width).to_vec();
        if self.batch_norm.is_some() {
            all.extend(ParameterSpec::batch_norm(&format!("{local}.1"), places));
        }
        all.extend(ParameterSpec::linear(&format!("{global}.0"), width, width));
        if self.batch_norm.is_some() {
            all.extend(ParameterSpec::batch_norm(&format!("{global}.1"), width));
        }
        all.extend(ParameterSpec::linear(&format!("{common}.0"), 1, width));
        all
    }

    /// Global vector of each set, `[n, d]`. In a training step `batch` is given.
    ///
    /// # Errors
    /// A set has more vectors than there are places, or there are no such parameters.
    pub fn forward(&self, graph: &Graph<'_>, sets: &EncodedItems, batch: Option<&LocalBatch<'_>>) -> Result<Tensor> {
        let padded = sets.padded();
        let [n, longest, width] = padded.size();
        let [local_layer, global_layer, common_layer] = self.layers;
        let means = padded.vectors.sum_dim_intlist(1i64, false, None::<Kind>) / padded.lengths().unsqueeze(1);
        let means = if self.normalizes_mean { l2_normalize(&means, -1) } else { means };
        let mut local = graph.linear_of_rows(&format!("{local_layer}.0"), &padded.vectors)?;
        let mut global = graph.linear(&format!("{global_layer}.0"), &means)?;
        if let Some(statistics) = self.batch_norm {
            let places = graph.get(&format!("{local_layer}.1.weight"))?.size()[0];
            if longest > places {
                let message = format!("an image has {longest} regions, expected at most the {places} of the training");
                return Err(Error::data(message));
            }
            // Places that no image of the batch has are padding too, so that all places take part.
            let more = [0, 0, 0, places - longest];
            let is_present = match &padded.is_padding {
                Some(padding) => padding.logical_not().to_kind(local.kind()),
                None => Tensor::ones([n, longest], (local.kind(), local.device())),
            };
            let is_present = is_present.constant_pad_nd(&more[2..]).unsqueeze(2);
            let axes = BatchNormAxes { over: &[0, 2], shape: &[1, places, 1], present: Some(&is_present) };
            local = graph.batch_norm(&format!("{local_layer}.1"), &local.constant_pad_nd(more), axes, statistics)?;
            local = local.narrow(1, 0, longest);
            global = graph.batch_norm_of_rows(&format!("{global_layer}.1"), &global, statistics)?;
        }
        let (local, global) = (local.tanh(), global.tanh());
        let (probability, stream) = self.dropout;
        let (local, global) = match batch.filter(|_| probability > 0.0) {
            Some(batch) => {
                let mask = batch.dropout_mask(stream, &vec![longest; sets.len()], width, probability, &local);
                let mean_mask = batch.dropout_mask(stream + 1, &vec![1; sets.len()], width, probability, &means);
                (local * mask.view([n, longest, width]), global * mean_mask)
            }
            None => (local, global),
        };
        let logits = graph.linear_of_rows(&format!("{common_layer}.0"), &(local * global.unsqueeze(1)))?.squeeze_dim(2);
        let logits = fill_padding(logits, padded.is_padding.as_ref(), f64::NEG_INFINITY);
        let weights = logits.softmax(1, None::<Kind>).unsqueeze(1);
        Ok(l2_normalize(&weights.bmm(&padded.vectors).squeeze_dim(1), -1))
    }
}
