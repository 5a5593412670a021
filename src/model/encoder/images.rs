//! Encoder of image features: a linear layer, then the L2 norm.

use tch::Tensor;

use super::linear;
use super::matmul::{MatmulPrecision, PrecisionProducts};
use super::normalize::{self, NormalizeTape};

/// Tensors that the backward pass needs.
#[derive(Debug)]
pub struct ImageTape {
    features: Tensor,
    unit: NormalizeTape,
}

/// Gradients of the linear layer.
#[derive(Debug)]
pub struct LinearGradients {
    /// Gradient of the weight, `[d, D]`.
    pub weight: Tensor,
    /// Gradient of the bias, `[d]`.
    pub bias: Tensor,
    /// Gradient of the features, `[n, D]`, if requested.
    pub features: Option<Tensor>,
}

/// Computes the embeddings `[n, d]` of features `[n, D]`, L2-normalised if `normalize`, and ending with |·| if
/// `absolute`.
pub fn forward(
    features: Tensor,
    [weight, bias]: [&Tensor; 2],
    normalize: bool,
    absolute: bool,
    precision: MatmulPrecision,
) -> (Tensor, ImageTape) {
    let rows = linear::forward(&features, weight, precision).g_add_(bias);
    let (out, unit) = normalize::forward(rows, normalize, absolute);
    (out, ImageTape { features, unit })
}

impl ImageTape {
    /// Computes the gradients from that in the embeddings, `[n, d]`; that of the features only if `of_features`.
    #[must_use]
    pub fn backward(
        self,
        d: &Tensor,
        weight: &Tensor,
        of_features: bool,
        precision: MatmulPrecision,
    ) -> LinearGradients {
        let d = self.unit.backward(d);
        LinearGradients {
            weight: linear::weight_gradient(&d, &self.features, precision),
            bias: d.sum_dim_intlist([0i64].as_slice(), false, None),
            features: of_features.then(|| precision.matmul(&d, weight)),
        }
    }
}
