//! Local scaling on tensors: the first version of HAL (Liu, Ye, 2019).

use tch::{Kind, Tensor};

use super::negatives::{Negatives, nearest};

/// Scores `[n, n]` as [`kernels::loss::local_scaling`](crate::kernels::loss::local_scaling()) scales them.
pub(super) fn scaled(scores: &Tensor, negatives: &Negatives, k: i64, detached: bool) -> Tensor {
    let source = if detached { scores.detach() } else { scores.shallow_clone() };
    let near = negatives.with_matching();
    let captions = neighbours(&source, &near, k);
    let images = neighbours(&source.tr(), &near.tr(), k).tr();
    scores * (captions + images).exp()
}

/// For each place of a row the mean of the `k` highest scores in the rest of the row, among `candidates`.
fn neighbours(scores: &Tensor, candidates: &Tensor, k: i64) -> Tensor {
    let total = |chosen: &Tensor| (scores * chosen).sum_dim_intlist(1, true, scores.kind());
    let count = |chosen: &Tensor| chosen.sum_dim_intlist(1, true, Kind::Int64);
    // A place that is one of the best k leaves the best k + 1 without itself to count.
    let (best, one_more) = (nearest(scores, candidates, k), nearest(scores, candidates, k + 1));
    let without = (total(&one_more) - scores) / (count(&one_more) - 1).clamp_min(1);
    let alone = count(&one_more).le(1);
    let without = without.masked_fill(&alone, 0.0);
    (total(&best) / count(&best).clamp_min(1)).where_self(&best.logical_not(), &without)
}
