//! SUM: every negative of the batch counts (Kiros, Salakhutdinov, Zemel, "Unifying Visual-Semantic Embeddings with
//! Multimodal Neural Language Models", 2014).

use super::Loss;

/// Σᵢ Σ_{j≠i} \[α + Sᵢⱼ − Sᵢᵢ\]₊ + Σⱼ Σ_{i≠j} \[α + Sᵢⱼ − Sⱼⱼ\]₊ with α = `margin`, for `n` × `n` scores.
///
/// The derivative of \[x\]₊ at 0 is 0. Cost: n² steps.
///
/// # Panics
/// `scores` is not `n` × `n`.
#[must_use]
pub fn sum(scores: &[f64], n: usize, margin: f64) -> Loss {
    assert_eq!(scores.len(), n * n, "scores of {n} pairs");
    let mut loss = Loss { value: 0.0, gradient: vec![0.0; n * n] };
    for image in 0..n {
        for caption in (0..n).filter(|caption| *caption != image) {
            let score = scores[image * n + caption];
            for matching in [image, caption] {
                let violation = margin + score - scores[matching * n + matching];
                if violation > 0.0 {
                    loss.value += violation;
                    loss.gradient[image * n + caption] += 1.0;
                    loss.gradient[matching * n + matching] -= 1.0;
                }
            }
        }
    }
    loss
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand, with α = 0.2: row 0 has 0.2+0.5−0.6 = 0.1; row 1 has 0.2+0.3−0.4 = 0.1; column 0 has
    /// 0.2+0.3−0.6 < 0; column 1 has 0.2+0.5−0.4 = 0.3.
    #[test]
    fn two_pairs_by_hand() {
        let loss = sum(&[0.6, 0.5, 0.3, 0.4], 2, 0.2);
        assert!((loss.value - 0.5).abs() < 1e-15);
        assert_eq!(loss.gradient, [-1.0, 2.0, 1.0, -2.0]);
    }

    #[test]
    fn when_all_scores_are_equal_it_is_2_b_times_b_minus_1_margins() {
        assert!((sum(&[0.9; 25], 5, 0.2).value - 2.0 * 5.0 * 4.0 * 0.2).abs() < 1e-12);
        assert_eq!(sum(&[0.9], 1, 0.2), Loss { value: 0.0, gradient: vec![0.0] });
    }
}
