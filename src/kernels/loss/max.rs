//! MAX: the hardest negative of the batch counts (Faghri, Fleet, Kiros, Fidler, "VSE++", BMVC 2018).

use super::Loss;

/// Σᵢ max_{j≠i} \[α + Sᵢⱼ − Sᵢᵢ\]₊ + Σⱼ max_{i≠j} \[α + Sᵢⱼ − Sⱼⱼ\]₊ with α = `margin`, for `n` × `n` scores.
///
/// Of equally hard negatives the first one receives the gradient; the derivative of \[x\]₊ at 0 is 0. Where a model maps
/// everything to one point the value is 2·n·α. Cost: n² steps.
///
/// # Panics
/// `scores` is not `n` × `n`.
#[must_use]
pub fn max(scores: &[f64], n: usize, margin: f64) -> Loss {
    assert_eq!(scores.len(), n * n, "scores of {n} pairs");
    let mut loss = Loss { value: 0.0, gradient: vec![0.0; n * n] };
    for anchor in 0..n {
        let row = |other: usize| anchor * n + other;
        let column = |other: usize| other * n + anchor;
        for at in [&row as &dyn Fn(usize) -> usize, &column] {
            let others = (0..n).filter(|other| *other != anchor).map(at);
            let Some(hardest) = others.reduce(|best, this| if scores[this] > scores[best] { this } else { best })
            else {
                continue;
            };
            let violation = margin + scores[hardest] - scores[row(anchor)];
            if violation > 0.0 {
                loss.value += violation;
                loss.gradient[hardest] += 1.0;
                loss.gradient[row(anchor)] -= 1.0;
            }
        }
    }
    loss
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand, with α = 0.2. Rows: 0.2+0.55−0.6 = 0.15 (caption 2), 0.2+0.3−0.4 = 0.1 (caption 0),
    /// 0.2+0.1−0.9 < 0. Columns: 0.2+0.3−0.6 < 0, 0.2+0.5−0.4 = 0.3 (image 0), 0.2+0.55−0.9 < 0.
    #[test]
    fn three_pairs_by_hand() {
        let loss = max(&[0.6, 0.5, 0.55, 0.3, 0.4, 0.1, 0.0, 0.1, 0.9], 3, 0.2);
        assert!((loss.value - 0.55).abs() < 1e-15);
        assert_eq!(loss.gradient, [-1.0, 1.0, 1.0, 1.0, -2.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_collapsed_batch_costs_two_margins_a_pair() {
        assert!((max(&[0.9; 25], 5, 0.2).value - 2.0 * 5.0 * 0.2).abs() < 1e-12);
        assert_eq!(max(&[0.9], 1, 0.2), Loss { value: 0.0, gradient: vec![0.0] });
    }

    #[test]
    fn with_two_pairs_it_is_the_sum_loss() {
        let scores = [0.6, 0.5, 0.3, 0.4];
        assert_eq!(max(&scores, 2, 0.2), super::super::sum(&scores, 2, 0.2));
    }
}
