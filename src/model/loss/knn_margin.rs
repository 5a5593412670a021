//! kNN-margin on tensors: the k hardest negatives count (Liu, Ye, ACL-SRW 2019).

use tch::Tensor;

use super::negatives::{Negatives, hinge, nearest};

/// [`kernels::loss::knn_margin`](crate::kernels::loss::knn_margin()) of scores `[n, n]`.
pub(super) fn knn_margin(scores: &Tensor, negatives: &Negatives, margin: f64, k: i64) -> Tensor {
    let captions = nearest(scores, &negatives.pairs, k);
    let images = nearest(&scores.tr(), &negatives.pairs.tr(), k).tr();
    hinge(scores, [&captions, &images], margin)
}
