//! HAL on tensors: the hubness-aware loss (Liu, Ye, Wang, Li, AAAI 2020).

use tch::{Kind, Tensor};

use super::bank_weights::Weights;
use super::negatives::Negatives;
use super::settings::Variant;
use crate::kernels::loss::hal::TANGENT;

/// [`kernels::loss::hal`](crate::kernels::loss::hal()) of scores `[n, n]`.
pub(super) fn hal(
    scores: &Tensor,
    negatives: &Negatives,
    gamma: f64,
    epsilon: f64,
    variant: Variant,
    weights: Option<&Weights>,
) -> Tensor {
    let offset = match (variant, weights) {
        (Variant::Paper, _) => 0.0,
        (Variant::Official, None) => (-gamma * epsilon).exp().ln_1p(),
        (Variant::Official, Some(_)) => std::f64::consts::LN_2,
    };
    let (exponents, pull) = ((scores - epsilon) * gamma, scores.diag(0));
    let (exponents, pull) = match weights {
        Some(weights) => (exponents * &weights.negative, pull * &weights.positive),
        None => (exponents, pull),
    };
    // The diagonal has room for the constant in each sum.
    let exponents = exponents
        .masked_fill(&negatives.with_matching().logical_not(), f64::NEG_INFINITY)
        .masked_fill(&negatives.matching, offset);
    let push = (exponents.logsumexp(1, false) + exponents.logsumexp(0, false)) / gamma;
    (push - pulled(&pull, variant)).mean(Kind::Double)
}

/// ln(1 + x) as it stands in the objective.
fn pulled(x: &Tensor, variant: Variant) -> Tensor {
    match variant {
        Variant::Official => x.relu().log1p(),
        Variant::Paper => {
            let inside = x.clamp_min(TANGENT - 1.0);
            inside.log1p() + (x - inside) / TANGENT
        }
    }
}
