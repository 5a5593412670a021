//! MAX on tensors: the hardest negative of the batch counts (VSE++: Faghri et al., BMVC 2018).

use tch::Tensor;

use super::negatives;

/// Σᵢ max_{j≠i} \[α + Sᵢⱼ − Sᵢᵢ\]₊ + Σⱼ max_{i≠j} \[α + Sᵢⱼ − Sⱼⱼ\]₊ with α = `margin`, summed over the batch.
pub fn max(scores: &Tensor, margin: f64) -> Tensor {
    let matching = scores.diag(0);
    let negatives = negatives(scores);
    let (caption, _) = negatives.max_dim(1, false);
    let (image, _) = negatives.max_dim(0, false);
    ((caption - &matching + margin).relu() + (image - &matching + margin).relu()).sum(scores.kind())
}
