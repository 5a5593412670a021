//! Image features to the joint space: a linear layer, then the unit sphere.

use tch::Tensor;

use super::linear;
use super::product::Precision;
use super::unit::{self, Unit};

/// What the gradient needs.
#[derive(Debug)]
pub struct Tape {
    features: Tensor,
    unit: Unit,
}

/// Gradients of the linear layer.
#[derive(Debug)]
pub struct Gradients {
    /// Of its weight, `[d, D]`.
    pub weight: Tensor,
    /// Of its bias, `[d]`.
    pub bias: Tensor,
    /// Of the features, `[n, D]`, where they were asked for.
    pub features: Option<Tensor>,
}

/// Embeds features `[n, D]`, to `[n, d]`. `normalize`: whether the result is normalised; `absolute`: whether it ends with
/// |·|.
pub fn forward(
    features: Tensor,
    [weight, bias]: [&Tensor; 2],
    normalize: bool,
    absolute: bool,
    precision: Precision,
) -> (Tensor, Tape) {
    let rows = linear::forward(&features, weight, precision).g_add_(bias);
    let (out, unit) = unit::forward(rows, normalize, absolute);
    (out, Tape { features, unit })
}

impl Tape {
    /// Gradients from that of the embeddings, `[n, d]`; those of the features too if `of_features`.
    #[must_use]
    pub fn backward(self, d: &Tensor, weight: &Tensor, of_features: bool, precision: Precision) -> Gradients {
        let d = self.unit.backward(d);
        Gradients {
            weight: linear::backward(&d, &self.features, precision),
            bias: d.sum_dim_intlist([0i64].as_slice(), false, None),
            features: of_features.then(|| precision.product(&d, weight)),
        }
    }
}
