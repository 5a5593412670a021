//! kNN-margin: the k hardest negatives count (Liu, Ye, "A Strong and Robust Baseline for Text-Image Matching",
//! ACL-SRW 2019).

use super::batch::nearest;
use super::{Batch, Loss};

/// Σᵢ Σ_{j∈K(i)} \[α + Sᵢⱼ − Sᵢᵢ\]₊ + Σⱼ Σ_{i∈K(j)} \[α + Sᵢⱼ − Sⱼⱼ\]₊ with α = `margin`, where `K` holds the `k` negatives
/// with the highest scores, or all where there are fewer.
///
/// With `k` = 1 it is [`max`](super::max()), with `k` ≥ n − 1 [`sum`](super::sum()). Cost: n² log n steps.
#[must_use]
pub fn knn_margin(batch: &Batch<'_>, margin: f64, k: usize) -> Loss {
    batch.triplets(margin, |negatives| nearest(negatives, k, |place| batch.scores[place]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand, with α = 0.2 and two neighbours of three. Row 0: captions 1 and 3, 0.2+0.5−0.6 = 0.1 and
    /// 0.2+0.55−0.6 = 0.15. All other rows and the columns 1 to 3 are far away. Column 0 has images 1 and 3:
    /// 0.2+0.45−0.6 = 0.05 and 0.2+0.3−0.6 < 0.
    #[test]
    fn two_neighbours_by_hand() {
        #[rustfmt::skip]
        let scores = [
            0.6, 0.5, 0.45, 0.55,
            0.45, 0.9, 0.0, 0.0,
            0.2, 0.0, 0.9, 0.0,
            0.3, 0.0, 0.0, 0.9,
        ];
        let loss = knn_margin(&Batch::new(&scores, 4), 0.2, 2);
        assert!((loss.value - 0.3).abs() < 1e-15, "{}", loss.value);
        let mut wanted = [0.0; 16];
        (wanted[0], wanted[1], wanted[3], wanted[4]) = (-3.0, 1.0, 1.0, 1.0);
        assert_eq!(loss.gradient, wanted);
    }
}
