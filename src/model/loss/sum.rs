//! SUM on tensors: every negative of the batch counts (Kiros et al., 2014).

use tch::Tensor;

use super::negatives;

/// Σᵢ Σ_{j≠i} \[α + Sᵢⱼ − Sᵢᵢ\]₊ + Σⱼ Σ_{i≠j} \[α + Sᵢⱼ − Sⱼⱼ\]₊ with α = `margin`, summed over the batch.
pub fn sum(scores: &Tensor, margin: f64) -> Tensor {
    let matching = scores.diag(0);
    let negatives = negatives(scores);
    let captions = (&negatives - matching.unsqueeze(1) + margin).relu();
    let images = (&negatives - matching.unsqueeze(0) + margin).relu();
    (captions + images).sum(scores.kind())
}
