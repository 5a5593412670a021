//! Consensus vectors: sums of concept vectors, weighted by attention.
//!
//! ```text
//! z = L2( Â · lrelu( Â · E · W₁ ) · W₂ )          Â = (A D)ᵀ D, D = diag(Σ_j A_ij)^(−1/2)       concept vectors
//! p = softmax over concepts c of 10 · w · ( tanh(BN(U z_c)) ∘ tanh(BN(V y)) )                   weights for a vector y
//! consensus vector = L2( Σ_c p_c · z_c )
//! ```
//!
//! A is the adjacency of the concept graph and E holds the input vectors of the concepts. Neither is trained.

use tch::{Kind, Tensor};

use super::settings::CvseSettings;
use crate::family::concept_graph::{CONCEPT_ADJACENCY, CONCEPT_VECTORS};
use crate::family::graph::{Graph, l2_normalize, leaky_relu};
use crate::family::parameters::{ParameterInit, ParameterSpec};
use pairloom_base::error::Result;

/// Weights of the graph convolutions.
const CONVOLUTIONS: [&str; 2] = ["C_GCN.gc1.weight", "C_GCN.gc2.weight"];

/// Slope of the leaky ReLU between the graph convolutions for negative values.
const NEGATIVE_SLOPE: f64 = 0.2;

/// Inverse temperature of the softmax of predicted weights and of labels.
pub const INVERSE_TEMPERATURE: f64 = 10.0;

/// Specifications of the parameters of the graph convolutions, for input vectors of `input` and concept vectors of
/// `width`.
pub fn graph_specs(input: i64, width: i64) -> [ParameterSpec; 2] {
    let convolution = |name: &str, from: i64, to: i64| {
        #[expect(clippy::cast_precision_loss, reason = "widths are below 2^31")]
        ParameterSpec::new(name, &[from, to], ParameterInit::Uniform(1.0 / (to as f64).sqrt()))
    };
    [convolution(CONVOLUTIONS[0], input, width / 2), convolution(CONVOLUTIONS[1], width / 2, width)]
}

/// Specifications of the parameters of the attention `name` to concepts of `width`.
pub fn attention_specs(name: &str, width: i64) -> Vec<ParameterSpec> {
    let mut all = Vec::new();
    for gate in ["embedding_1", "embedding_2"] {
        all.extend(ParameterSpec::linear(&format!("{name}.{gate}.0"), width, width));
        all.extend(ParameterSpec::batch_norm(&format!("{name}.{gate}.1"), width));
    }
    all.extend(ParameterSpec::linear(&format!("{name}.embedding_3.0"), 1, width));
    all
}

/// Concept vectors z, `[c, d]`.
///
/// # Errors
/// There are no such parameters.
pub fn concept_vectors(graph: &Graph<'_>) -> Result<Tensor> {
    let adjacency = graph.get(CONCEPT_ADJACENCY)?;
    let d = adjacency.sum_dim_intlist(1i64, false, None::<Kind>).rsqrt();
    let adjacency = (adjacency * d.unsqueeze(0)).tr() * d.unsqueeze(0);
    let [first, second] = CONVOLUTIONS.map(|name| graph.get(name));
    let hidden = graph.matmul(&adjacency, &graph.matmul(graph.get(CONCEPT_VECTORS)?, first?));
    let hidden = leaky_relu(&hidden, NEGATIVE_SLOPE);
    Ok(l2_normalize(&graph.matmul(&adjacency, &graph.matmul(&hidden, second?)), -1))
}

/// Logarithms of the concept weights p for the vectors `y`, `[n, c]`.
pub(super) fn log_concept_weights(
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
    let of_concepts = gate("embedding_1", concepts)? * graph.get(&format!("{name}.embedding_3.0.weight"))?;
    // The softmax is sharp, so this small product is not rounded to bf16 in mixed precision.
    let logits = gate("embedding_2", y)?.matmul(&of_concepts.tr());
    let logits = logits + graph.get(&format!("{name}.embedding_3.0.bias"))?;
    Ok((logits * INVERSE_TEMPERATURE).log_softmax(1, None::<Kind>))
}
