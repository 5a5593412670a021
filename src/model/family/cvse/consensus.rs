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
use crate::error::Result;
use crate::model::family::batch_norm::BatchNormAxes;
use crate::model::family::concept_graph::{CONCEPT_ADJACENCY, CONCEPT_VECTORS};
use crate::model::family::graph::{Graph, l2_normalize};
use crate::model::family::parameters::{ParameterInit, ParameterSpec};

/// Weights of the graph convolutions.
const CONVOLUTIONS: [&str; 2] = ["C_GCN.gc1.weight", "C_GCN.gc2.weight"];

/// Slope of the leaky ReLU between the graph convolutions for negative values.
const NEGATIVE_SLOPE: f64 = 0.2;

/// Factor of logits and labels before a softmax.
pub const SHARPNESS: f64 = 10.0;

/// Specifications of the parameters of the graph convolutions, for input vectors of `input` and concept vectors of
/// `width`.
pub fn graph_specs(input: i64, width: i64) -> [ParameterSpec; 2] {
    let [first, second] = [(input, width / 2), (width / 2, width)].map(|(from, to)| {
        #[expect(clippy::cast_precision_loss, reason = "widths are below 2^31")]
        (vec![from, to], ParameterInit::Uniform(1.0 / (to as f64).sqrt()))
    });
    [ParameterSpec::new(CONVOLUTIONS[0], &first.0, first.1), ParameterSpec::new(CONVOLUTIONS[1], &second.0, second.1)]
}

/// Specifications of the parameters of the attention `name` to concepts of `width`.
pub fn attention_specs(name: &str, width: i64) -> Vec<ParameterSpec> {
    let layer = |layer: &str, width: i64, to: i64| ParameterSpec::linear(&format!("{name}.{layer}.0"), to, width);
    let batch_norm = |layer: &str| ParameterSpec::batch_norm(&format!("{name}.{layer}.1"), width);
    let mut all = layer("embedding_1", width, width).to_vec();
    all.extend(batch_norm("embedding_1"));
    all.extend(layer("embedding_2", width, width));
    all.extend(batch_norm("embedding_2"));
    all.extend(layer("embedding_3", width, 1));
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
    let hidden = hidden.maximum(&(&hidden * NEGATIVE_SLOPE));
    Ok(l2_normalize(&graph.matmul(&adjacency, &graph.matmul(&hidden, second?)), -1))
}

impl CvseSettings {
    /// Logarithms of the concept weights p for the vectors `y`, `[n, c]`.
    pub(super) fn log_concept_weights(
        &self,
        graph: &Graph<'_>,
        name: &str,
        concepts: &Tensor,
        y: &Tensor,
    ) -> Result<Tensor> {
        let gate = |layer: &str, rows: &Tensor| -> Result<Tensor> {
            let rows = graph.linear(&format!("{name}.{layer}.0"), rows)?;
            let shape = [1, rows.size()[1]];
            let axes = BatchNormAxes { over: &[0], shape: &shape, present: None };
            Ok(graph.batch_norm(&format!("{name}.{layer}.1"), &rows, axes, self.batch_norm)?.tanh())
        };
        let of_concepts = gate("embedding_1", concepts)? * graph.get(&format!("{name}.embedding_3.0.weight"))?;
        // The softmax is sharp, so this small product is not rounded to bf16 in mixed precision.
        let logits = gate("embedding_2", y)?.matmul(&of_concepts.tr());
        let logits = logits + graph.get(&format!("{name}.embedding_3.0.bias"))?;
        Ok((logits * SHARPNESS).log_softmax(1, None::<Kind>))
    }
}
