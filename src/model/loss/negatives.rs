//! Negatives of a batch: masks, selection of the hardest, triplet hinges.

use tch::{Kind, Tensor};

/// Masks of the negatives and of the matching pairs of a batch.
#[derive(Debug)]
pub struct Negatives {
    /// `[n, n]` bool: true where image i and caption j are negatives of each other.
    pub is_negative: Tensor,
    /// `[n, n]` bool: true on the diagonal.
    pub is_matching: Tensor,
}

impl Negatives {
    /// Creates the masks for scores `[n, n]`: negatives are all places except matching pairs and those where `masked`
    /// is true.
    pub fn new(scores: &Tensor, masked: Option<&Tensor>) -> Self {
        let matching = Tensor::eye(scores.size()[0], (Kind::Bool, scores.device()));
        let excluded = masked.map_or_else(|| matching.shallow_clone(), |masked| matching.logical_or(masked));
        Self { is_negative: excluded.logical_not(), is_matching: matching }
    }

    /// Mask of matching pairs and negatives: all places that are not masked.
    pub fn unmasked(&self) -> Tensor {
        self.is_negative.logical_or(&self.is_matching)
    }
}

/// Mask of the `k` highest scores of each row among `candidates`. Among equal scores the lower index is chosen. If a row
/// has fewer than `k` candidates, all are chosen.
pub fn top_k_mask(scores: &Tensor, candidates: &Tensor, k: i64) -> Tensor {
    let width = scores.size()[1];
    if k >= width {
        return candidates.shallow_clone();
    }
    let scores = scores.detach().masked_fill(&candidates.logical_not(), f64::NEG_INFINITY);
    // The choice of libtorch among equal scores is unspecified, but the k-th score is not.
    let (best, _) = scores.topk(k, 1, true, true);
    let last = best.narrow(1, k - 1, 1);
    let above = scores.gt_tensor(&last);
    let level = scores.eq_tensor(&last).logical_and(candidates);
    let room = k - above.sum_dim_intlist(1, true, Kind::Int64);
    let taken = level.cumsum(1, Kind::Int64).le_tensor(&room);
    above.logical_or(&level.logical_and(&taken))
}

/// Σ \[margins + Sᵢⱼ − Sᵢᵢ\]₊ over the places of the mask `captions`, plus Σ \[margins + Sᵢⱼ − Sⱼⱼ\]₊ over those of
/// `images`. The two margins can be broadcast to `[n, n]`.
pub fn triplet_hinges(scores: &Tensor, [captions, images]: [&Tensor; 2], margins: [&Tensor; 2]) -> Tensor {
    let matching = scores.diag(0);
    let of_images = (scores - matching.unsqueeze(1) + margins[0]).relu() * captions;
    let of_captions = (scores - matching.unsqueeze(0) + margins[1]).relu() * images;
    (of_images + of_captions).sum(Kind::Double)
}

/// Triplet hinges with one constant margin.
pub fn constant_margin_hinges(scores: &Tensor, picked: [&Tensor; 2], margin: f64) -> Tensor {
    let margin = Tensor::from(margin).to_kind(scores.kind()).to_device(scores.device());
    triplet_hinges(scores, picked, [&margin, &margin])
}
