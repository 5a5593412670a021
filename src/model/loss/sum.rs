//! SUM on tensors: every negative of the batch counts (Kiros et al., 2014).

use tch::Tensor;

use super::negatives::{Negatives, hinge};

/// [`kernels::loss::sum`](crate::kernels::loss::sum()) of scores `[n, n]`.
pub(super) fn sum(scores: &Tensor, negatives: &Negatives, margin: f64) -> Tensor {
    hinge(scores, [&negatives.pairs, &negatives.pairs], margin)
}
