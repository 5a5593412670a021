//! `InfoNCE` on tensors, in both directions (van den Oord et al., 2018).

use tch::{Kind, Tensor};

use super::negatives::Negatives;

/// [`kernels::loss::info_nce`](crate::kernels::loss::info_nce()) of scores `[n, n]`.
pub(super) fn info_nce(scores: &Tensor, negatives: &Negatives, temperature: f64) -> Tensor {
    let logits = (scores / temperature).masked_fill(&negatives.with_matching().logical_not(), f64::NEG_INFINITY);
    let all = logits.logsumexp(1, false) + logits.logsumexp(0, false);
    (all / 2.0 - logits.diag(0)).mean(Kind::Double)
}
