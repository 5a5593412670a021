//! Local scaling: the first version of HAL (Liu, Ye, "Improved Text-Image Matching by Mitigating Visual Semantic Hubs",
//! submitted to EMNLP 2019, equation 4).

use super::batch::nearest;
use super::{Batch, Loss, max, sum};

/// The objective that sees the scaled scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// [`sum`](super::sum()), the paper's "HAL".
    Sum,
    /// [`max`](super::max()), the paper's "MAX+HAL".
    Max,
}

/// Whether the gradient flows through the scale, which the paper does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exponent {
    /// The scale is a weight, a constant of the step.
    Detached,
    /// The scale is a function of the scores.
    Differentiated,
}

/// `over` on S'ᵢⱼ = Sᵢⱼ·exp(mean of Sᵢₓ over x ∈ K₁ + mean of Sₓⱼ over x ∈ K₂): K₁ holds the `k` captions nearest to image i
/// but for j, K₂ the `k` images nearest to caption j but for i.
///
/// The neighbours of a negative may be matching pairs: it is a hub if it is near to its own partner and to others. Other
/// captions of the same image are nobody's neighbours. Of fewer than `k` neighbours all count; the mean of none is 0. The
/// paper prints s(ī, t̄) in the first sum, where only s(i, t̄) makes sense of its text.
///
/// Cost: n² (k + log n) steps.
#[must_use]
pub fn local_scaling(batch: &Batch<'_>, margin: f64, k: usize, over: Over, exponent: Exponent) -> Loss {
    let n = batch.pairs;
    let captions: Vec<Vec<usize>> = (0..n).map(|image| near(batch, (0..n).map(|j| image * n + j), k + 1)).collect();
    let images: Vec<Vec<usize>> = (0..n).map(|caption| near(batch, (0..n).map(|i| i * n + caption), k + 1)).collect();
    // The nearest k but for a place are among the nearest k + 1 with it.
    let but = |near: &[usize], place: usize| near.iter().copied().filter(|&other| other != place).take(k).collect();
    let neighbours: Vec<[Vec<usize>; 2]> =
        (0..n * n).map(|place| [but(&captions[place / n], place), but(&images[place % n], place)]).collect();
    let scales: Vec<f64> = neighbours
        .iter()
        .map(|both| both.iter().map(|near| mean(near.iter().map(|&place| batch.scores[place]))).sum::<f64>().exp())
        .collect();
    let scaled: Vec<f64> = batch.scores.iter().zip(&scales).map(|(score, scale)| score * scale).collect();
    let scaled = Batch { scores: &scaled, ..*batch };
    let outer = match over {
        Over::Sum => sum(&scaled, margin),
        Over::Max => max(&scaled, margin),
    };

    let mut gradient: Vec<f64> = outer.gradient.iter().zip(&scales).map(|(outer, scale)| outer * scale).collect();
    if exponent == Exponent::Differentiated {
        // S' = S·eˣ, so its derivative in x is S' itself, and x holds each neighbour with one part in |K|.
        for ((outer, scaled), both) in outer.gradient.iter().zip(scaled.scores).zip(&neighbours) {
            for near in both {
                for &place in near {
                    gradient[place] += outer * scaled / count(near.len());
                }
            }
        }
    }
    Loss { value: outer.value, gradient }
}

/// The `k` nearest of `places` that are not other captions of the same image.
fn near(batch: &Batch<'_>, places: impl Iterator<Item = usize>, k: usize) -> Vec<usize> {
    let candidates = places.filter(|&place| place / batch.pairs == place % batch.pairs || !batch.is_masked(place));
    nearest(candidates.collect(), k, |place| batch.scores[place])
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let of = count(values.len().max(1));
    values.sum::<f64>() / of
}

#[expect(clippy::cast_precision_loss, reason = "a batch has far fewer than 2^53 pairs")]
fn count(of: usize) -> f64 {
    of as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pairs, one neighbour: the scale of a place is e to the sum of the two places beside it.
    /// S' = [0.5·e⁰·⁵, 0.2·e⁰·⁹, 0.3·e⁰·⁹, 0.4·e⁰·⁵] with S = [0.5, 0.2, 0.3, 0.4].
    #[test]
    fn two_pairs_by_hand() {
        let batch = Batch::new(&[0.5, 0.2, 0.3, 0.4], 2);
        let (near, far) = (0.5f64.exp(), 0.9f64.exp());
        let hinge = |negative: f64, matching: f64| (0.5 + negative - matching).max(0.0);
        let [a, b, c, d] = [0.5 * near, 0.2 * far, 0.3 * far, 0.4 * near];
        let wanted = hinge(b, a) + hinge(c, d) + hinge(c, a) + hinge(b, d);
        let loss = local_scaling(&batch, 0.5, 1, Over::Sum, Exponent::Detached);
        assert!((loss.value - wanted).abs() < 1e-15, "{} and {wanted}", loss.value);
        assert!(
            loss.gradient
                .iter()
                .zip([-2.0 * near, 2.0 * far, 2.0 * far, -2.0 * near])
                .all(|(a, b)| (a - b).abs() < 1e-12)
        );

        // Beside the diagonal: d L / d S₀₀ gains what the scales of S₀₁ and S₁₀ pass on, 2·S'₀₁ + 2·S'₁₀.
        let through = local_scaling(&batch, 0.5, 1, Over::Sum, Exponent::Differentiated);
        assert_eq!(through.value, loss.value);
        assert!((through.gradient[0] - (-2.0 * near + 2.0 * b + 2.0 * c)).abs() < 1e-12);
    }
}
