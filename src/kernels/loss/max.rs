//! MAX: the hardest negative of the batch counts (Faghri, Fleet, Kiros, Fidler, "VSE++", BMVC 2018).

use super::{Batch, Loss, knn_margin};

/// Σᵢ max_{j≠i} \[α + Sᵢⱼ − Sᵢᵢ\]₊ + Σⱼ max_{i≠j} \[α + Sᵢⱼ − Sⱼⱼ\]₊ with α = `margin`.
///
/// Where a model maps everything to one point the value is 2·n·α. Cost: as [`knn_margin()`].
#[must_use]
pub fn max(batch: &Batch<'_>, margin: f64) -> Loss {
    knn_margin(batch, margin, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand, with α = 0.2. Rows: 0.2+0.55−0.6 = 0.15 (caption 2), 0.2+0.3−0.4 = 0.1 (caption 0),
    /// 0.2+0.1−0.9 < 0. Columns: 0.2+0.3−0.6 < 0, 0.2+0.5−0.4 = 0.3 (image 0), 0.2+0.55−0.9 < 0.
    #[test]
    fn three_pairs_by_hand() {
        let loss = max(&Batch::new(&[0.6, 0.5, 0.55, 0.3, 0.4, 0.1, 0.0, 0.1, 0.9], 3), 0.2);
        assert!((loss.value - 0.55).abs() < 1e-15);
        assert_eq!(loss.gradient, [-1.0, 1.0, 1.0, 1.0, -2.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_collapsed_batch_costs_two_margins_a_pair_and_moves_the_first_negative() {
        let loss = max(&Batch::new(&[0.5; 9], 3), 0.25);
        assert_eq!(loss.value, 2.0 * 3.0 * 0.25);
        assert_eq!(loss.gradient, [-2.0, 2.0, 1.0, 2.0, -2.0, 0.0, 1.0, 0.0, -2.0]);
        assert_eq!(max(&Batch::new(&[0.9], 1), 0.2), Loss { value: 0.0, gradient: vec![0.0] });
    }
}
