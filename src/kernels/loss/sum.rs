//! SUM: every negative of the batch counts (Kiros, Salakhutdinov, Zemel, "Unifying Visual-Semantic Embeddings with
//! Multimodal Neural Language Models", 2014).

use super::{Batch, Loss};

/// Σᵢ Σ_{j≠i} \[α + Sᵢⱼ − Sᵢᵢ\]₊ + Σⱼ Σ_{i≠j} \[α + Sᵢⱼ − Sⱼⱼ\]₊ with α = `margin`.
///
/// Where a model maps everything to one point the value is 2·n·(n − 1)·α. Cost: n² steps.
#[must_use]
pub fn sum(batch: &Batch<'_>, margin: f64) -> Loss {
    batch.triplets(margin, |negatives| negatives)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand, with α = 0.2: row 0 has 0.2+0.5−0.6 = 0.1; row 1 has 0.2+0.3−0.4 = 0.1; column 0 has
    /// 0.2+0.3−0.6 < 0; column 1 has 0.2+0.5−0.4 = 0.3.
    #[test]
    fn two_pairs_by_hand() {
        let loss = sum(&Batch::new(&[0.6, 0.5, 0.3, 0.4], 2), 0.2);
        assert!((loss.value - 0.5).abs() < 1e-15);
        assert_eq!(loss.gradient, [-1.0, 2.0, 1.0, -2.0]);
    }

    /// The same, but caption 1 is another one of image 0: row 1 and nothing else is left.
    #[test]
    fn masked_pairs_do_not_count() {
        let loss = sum(&Batch::with_mask(&[0.6, 0.5, 0.3, 0.4], 2, &[false, true, false, false]), 0.2);
        assert!((loss.value - 0.1).abs() < 1e-15);
        assert_eq!(loss.gradient, [0.0, 0.0, 1.0, -1.0]);
    }

    #[test]
    fn when_all_scores_are_equal_it_is_2_b_times_b_minus_1_margins() {
        assert!((sum(&Batch::new(&[0.9; 25], 5), 0.2).value - 2.0 * 5.0 * 4.0 * 0.2).abs() < 1e-12);
        assert_eq!(sum(&Batch::new(&[0.9], 1), 0.2), Loss { value: 0.0, gradient: vec![0.0] });
    }
}
