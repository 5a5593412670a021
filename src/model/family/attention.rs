//! Attention of words to regions, or of regions to words, as SCAN defines it.
//!
//! ```text
//! a_cq = f(s_cq) / (‖f(s_c·)‖₂ + 10⁻⁸)        p_cq = softmax over contexts c of λ · a_cq
//! ```
//!
//! `s_cq` is the cosine of context c and query q, and f a (leaky) ReLU. The norm is over the queries.

use tch::{Kind, Tensor};

use super::encoded_items::fill_padding;
pub use pairloom_spec::family::scan::AttentionDirection;

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
