//! Generalised pooling operator: learned weights of the sorted values of a set of vectors.
//!
//! ```text
//! pooled_j = Σ_k θ_k · (k-th largest value of coordinate j)
//! θ = softmax over k of (w · state_k) / 0.1      states: GRU in both directions, averaged, over position codes
//! ```
//!
//! θ depends on the number of vectors only. Mean, maximum and the mean of the k largest are special cases.

use az::SaturatingAs;
use tch::{Kind, Tensor};

use crate::encoder::MatmulPrecision;
use crate::family::encoded_items::{EncodedItems, fill_padding};
use crate::family::graph::Graph;
use crate::family::parameters::{ParameterInit, ParameterSpec};
use pairloom_base::error::Result;

/// Divisor of the logits of the weights.
const TEMPERATURE: f64 = 0.1;

/// Specifications of the parameters of a pooling operator `name`: a GRU of `width` in both directions and a linear layer
/// without bias, all U(±1/√width).
pub fn parameter_specs(name: &str, width: i64) -> Vec<ParameterSpec> {
    #[expect(clippy::cast_precision_loss, reason = "widths are below 2^31")]
    let init = ParameterInit::Uniform(1.0 / (width as f64).sqrt());
    let mut all = ParameterSpec::gru(&format!("{name}.gru"), "", width, width).to_vec();
    all.extend(ParameterSpec::gru(&format!("{name}.gru"), "_reverse", width, width));
    all.push(ParameterSpec::new(&format!("{name}.linear.weight"), &[1, width], init));
    all
}

/// Pools each set of vectors into one, `[n, d]`.
///
/// # Errors
/// There are no parameters of such an operator.
pub fn pool(graph: &Graph<'_>, name: &str, sets: &EncodedItems) -> Result<Tensor> {
    let padded = sets.padded();
    let [n, longest, _] = padded.size();
    let mut sizes = padded.counts.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let weights = pooling_weights(graph, name, &sizes)?;
    let size_of_set: Vec<i64> =
        padded.counts.iter().map(|count| sizes.partition_point(|size| size < count).saturating_as::<i64>()).collect();
    let size_of_set = Tensor::from_slice(&size_of_set).to_device(weights.device());
    let weights = weights.index_select(0, &size_of_set).view([n, 1, longest]);
    let sorted = match &padded.is_padding {
        // Padding is last in the order and then counts as 0.
        Some(padding) => {
            let padding = padding.unsqueeze(2);
            let (sorted, _) = padded.vectors.masked_fill(&padding, f64::NEG_INFINITY).sort(1, true);
            sorted.masked_fill(&padding, 0.0)
        }
        None => padded.vectors.sort(1, true).0,
    };
    Ok(weights.bmm(&sorted).squeeze_dim(1))
}

/// Weights θ of sets of these sizes, `[sizes, longest]`, 0 after the size.
fn pooling_weights(graph: &Graph<'_>, name: &str, sizes: &[i64]) -> Result<Tensor> {
    let linear = graph.get(&format!("{name}.linear.weight"))?;
    let width = linear.size()[1];
    let codes = position_codes(sizes.iter().copied().max().unwrap_or(0), width, linear);
    let positions: Vec<i64> = sizes.iter().flat_map(|&size| 0..size).collect();
    let positions = Tensor::from_slice(&positions).to_device(linear.device());
    let codes = EncodedItems { vectors: codes.index_select(0, &positions), lengths: Some(sizes.to_vec()) };
    // The softmax is sharp, and this GRU is small, so its factors are not rounded to bf16 in mixed precision.
    let states = graph.gru_states(&format!("{name}.gru"), 2, &codes, MatmulPrecision::F32)?;
    let logits = states.vectors.matmul(&linear.tr()) / TEMPERATURE;
    let logits = states.with_vectors(logits).padded();
    let filled = fill_padding(logits.vectors.squeeze_dim(2), logits.is_padding.as_ref(), f64::NEG_INFINITY);
    Ok(filled.softmax(1, None::<Kind>))
}

/// Sinusoidal codes of the positions 0, 1, …: sin and cos of position / 10,000^(2i / width) in turn, `[count, width]`.
fn position_codes(count: i64, width: i64, like: &Tensor) -> Tensor {
    #[expect(clippy::cast_precision_loss, reason = "positions and widths are below 2^31")]
    let angle = |position: i64, pair: i64| position as f64 / 10_000f64.powf((2 * pair) as f64 / width as f64);
    let code = |position: i64| (0..width / 2).flat_map(move |pair| <[f64; 2]>::from(angle(position, pair).sin_cos()));
    let codes: Vec<f64> = (0..count).flat_map(code).collect();
    Tensor::from_slice(&codes).view([count, width]).to_device(like.device()).to_kind(like.kind())
}
