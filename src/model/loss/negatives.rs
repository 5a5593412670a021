//! The negatives of a batch, and the hardest of them.

use tch::{Kind, Tensor};

/// Which pairs of a batch are negatives.
#[derive(Debug)]
pub struct Negatives {
    /// `[n, n]`, true where image i and caption j are negatives of each other.
    pub pairs: Tensor,
    /// `[n, n]`, true on the diagonal.
    pub matching: Tensor,
}

impl Negatives {
    /// All but the matching pairs and those of `masked`, for scores `[n, n]`.
    pub fn new(scores: &Tensor, masked: Option<&Tensor>) -> Self {
        let matching = Tensor::eye(scores.size()[0], (Kind::Bool, scores.device()));
        let excluded = masked.map_or_else(|| matching.shallow_clone(), |masked| matching.logical_or(masked));
        Self { pairs: excluded.logical_not(), matching }
    }

    /// The matching pairs and the negatives: all but what is masked.
    pub fn with_matching(&self) -> Tensor {
        self.pairs.logical_or(&self.matching)
    }
}

/// The `k` pairs of each row with the highest scores among `candidates`, as a mask; of equal scores the lower index. All
/// candidates where there are fewer.
pub fn nearest(scores: &Tensor, candidates: &Tensor, k: i64) -> Tensor {
    let width = scores.size()[1];
    if k >= width {
        return candidates.shallow_clone();
    }
    let scores = scores.detach().masked_fill(&candidates.logical_not(), f64::NEG_INFINITY);
    // libtorch does not say which of equal scores it takes, but what the k-th score is.
    let (best, _) = scores.topk(k, 1, true, true);
    let last = best.narrow(1, k - 1, 1);
    let above = scores.gt_tensor(&last);
    let level = scores.eq_tensor(&last).logical_and(candidates);
    let room = k - above.sum_dim_intlist(1, true, Kind::Int64);
    let taken = level.cumsum(1, Kind::Int64).le_tensor(&room);
    above.logical_or(&level.logical_and(&taken))
}

/// Σ \[margins + Sᵢⱼ − Sᵢᵢ\]₊ over the pairs of `captions` and Σ \[margins + Sᵢⱼ − Sⱼⱼ\]₊ over those of `images`; a margin
/// is a tensor that can be spread over `[n, n]`.
pub fn triplets(scores: &Tensor, [captions, images]: [&Tensor; 2], margins: [&Tensor; 2]) -> Tensor {
    let matching = scores.diag(0);
    let of_images = (scores - matching.unsqueeze(1) + margins[0]).relu() * captions;
    let of_captions = (scores - matching.unsqueeze(0) + margins[1]).relu() * images;
    (of_images + of_captions).sum(Kind::Double)
}

/// [`triplets`] of one margin.
pub fn hinge(scores: &Tensor, picked: [&Tensor; 2], margin: f64) -> Tensor {
    let margin = Tensor::from(margin).to_kind(scores.kind()).to_device(scores.device());
    triplets(scores, picked, [&margin, &margin])
}
