//! Graph convolutions over the regions of an image.
//!
//! ```text
//! v ← v + BN(W · (R · g(v)))      R = θ(v) · φ(v)ᵀ / N, for the N regions of an image
//! ```
//!
//! θ, φ, g and W are linear layers, stored as convolutions of width 1. Weight and bias of the batch normalisation start
//! at 0, so each convolution starts as the identity.

use tch::Tensor;

use super::settings::{RegionNormalization, VsrnSettings};
use crate::family::encoded_items::{EncodedItems, PaddedSets};
use crate::family::graph::{Graph, l2_normalize};
use crate::family::parameters::{ParameterInit, ParameterSpec};
use pairloom_base::error::Result;

/// Name of a part of a layer. Layers count from 0 here, and from 1 in names.
fn part_name(layer: usize, part: &str) -> String {
    format!("img_enc.Rs_GCN_{}.{part}", layer + 1)
}

/// Specifications of the parameters of a layer for regions of `width`.
pub fn parameter_specs(layer: usize, width: i64) -> Vec<ParameterSpec> {
    #[expect(clippy::cast_precision_loss, reason = "widths are below 2^31")]
    let init = ParameterInit::Uniform(1.0 / (width as f64).sqrt());
    let convolutions = ["g", "theta", "phi", "W.0"].map(|part| part_name(layer, part));
    let mut all: Vec<ParameterSpec> = convolutions
        .iter()
        .flat_map(|name| {
            let weight = ParameterSpec::new(&format!("{name}.weight"), &[width, width, 1], init);
            [weight, ParameterSpec::new(&format!("{name}.bias"), &[width], init)]
        })
        .collect();
    let [mut weight, bias, mean, variance] = ParameterSpec::batch_norm(&part_name(layer, "W.1"), width);
    weight.init = ParameterInit::Constant(0.0);
    all.extend([weight, bias, mean, variance]);
    all
}

/// Applies all graph convolutions to the regions of images, and normalises.
///
/// # Errors
/// There are no such parameters.
pub(super) fn reason(settings: &VsrnSettings, graph: &Graph<'_>, regions: EncodedItems) -> Result<EncodedItems> {
    let mut regions = if settings.normalize_input { normalize(settings, regions) } else { regions };
    for layer in 0..settings.reasoning_layers {
        let v = &regions.vectors;
        let padded = |part: &str| -> Result<PaddedSets> {
            Ok(regions.with_vectors(convolution(graph, &part_name(layer, part), v)?).padded())
        };
        let (theta, phi, g) = (padded("theta")?, padded("phi")?, padded("g")?);
        let counts = g.lengths().view([-1, 1, 1]);
        let affinity = graph.matmul(&theta.vectors, &phi.vectors.transpose(1, 2)) / counts;
        let gathered = g.unpadded(&graph.matmul(&affinity, &g.vectors));
        let update = convolution(graph, &part_name(layer, "W.0"), &gathered)?;
        let update = graph.batch_norm_of_rows(&part_name(layer, "W.1"), &update, settings.batch_norm)?;
        regions = regions.with_vectors(v + update);
    }
    Ok(normalize(settings, regions))
}

fn normalize(settings: &VsrnSettings, regions: EncodedItems) -> EncodedItems {
    let vectors = match settings.normalization {
        RegionNormalization::Features => l2_normalize(&regions.vectors, -1),
        RegionNormalization::Regions => {
            let padded = regions.padded();
            padded.unpadded(&l2_normalize(&padded.vectors, 1))
        }
    };
    regions.with_vectors(vectors)
}

/// Convolution of width 1: a linear layer of each row.
fn convolution(graph: &Graph<'_>, name: &str, rows: &Tensor) -> Result<Tensor> {
    let weight = graph.get(&format!("{name}.weight"))?.squeeze_dim(2);
    Ok(graph.matmul_transposed(rows, &weight) + graph.get(&format!("{name}.bias"))?)
}
