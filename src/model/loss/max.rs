//! MAX on tensors: the hardest negative of the batch counts (VSE++: Faghri et al., BMVC 2018).

use tch::Tensor;

use super::knn_margin::knn_margin;
use super::negatives::Negatives;

/// [`kernels::loss::max`](crate::kernels::loss::max()) of scores `[n, n]`.
pub(super) fn max(scores: &Tensor, negatives: &Negatives, margin: f64) -> Tensor {
    knn_margin(scores, negatives, margin, 1)
}
