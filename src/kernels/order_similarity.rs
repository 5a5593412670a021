//! Order similarity of order embeddings: the negative penalty for violating the order between an image and a caption,
//! the more abstract of the two (Vendrov, Kiros, Fidler, Urtasun, "Order-Embeddings of Images and Language", ICLR
//! 2016).
//!
//! [`order_similarity`] is the definition. Three faster implementations compute it in f32: `product::order_violation`
//! in tiles, for a search on the CPU; `model::products` of the main crate, for a search on a GPU; `model::similarity`
//! there, on the tensors of a batch, with the gradient. The error of the first two is at most
//! [`order_similarity_error`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::product::NormBound;

/// Penalty for the violations max(0, caption − image). A score is its negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrderPenalty {
    /// The L2 norm; the score is −‖max(0, caption − image)‖₂ (the code of VSE++ and HAL).
    #[default]
    Norm,
    /// The sum of squares; the score is −Σ max(0, caption − image)² (the paper).
    Squared,
}

/// The score of an image and a caption, at most 0; it is 0 if no value of the caption exceeds that of the image.
///
/// A pure function of the two vectors, summed in f64 and rounded once to f32.
///
/// # Shapes
/// `image` and `caption`: `width`. If the lengths differ, the longer slice is truncated.
///
/// # Cost
/// `O(width)` time.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "a score is the f32 nearest to the sum")]
pub fn order_similarity(image: &[f32], caption: &[f32], penalty: OrderPenalty) -> f32 {
    let squares = image.iter().zip(caption).map(|(&x, &c)| {
        let violation = (f64::from(c) - f64::from(x)).max(0.0);
        violation * violation
    });
    let sum: f64 = squares.sum();
    let distance = match penalty {
        OrderPenalty::Norm => sum.sqrt(),
        OrderPenalty::Squared => sum,
    };
    // A difference, not a negation, so that the score of no violation is 0, not −0.
    0.0 - distance as f32
}

/// A bound on `|s − order_similarity(image, caption)|`, where `s` is the same score computed in f32, summed in any
/// order.
///
/// All terms of the sum have the same sign, so its relative error is at most γ = (n + 4)·u / (1 − (n + 4)·u) with
/// `u = 2⁻²⁴`: one rounding for the difference, counted twice, one for the square, `n` for the sum, and one for
/// [`order_similarity`] (Higham, "Accuracy and Stability of Numerical Algorithms", chapter 3). The magnitude of a score
/// is at most ‖image‖ + ‖caption‖, or its square. The bound includes underflow.
///
/// If the vectors were rounded, with errors δimage and δcaption, the vector of violations changes by at most δ =
/// ‖δimage‖ + ‖δcaption‖ in norm, since max(0, ·) is 1-Lipschitz. The sum of squares changes by at most
/// 2·δ·(‖image‖ + ‖caption‖ + δ).
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "widths are far below 2⁵³")]
pub fn order_similarity_error(width: usize, penalty: OrderPenalty, image: NormBound, caption: NormBound) -> f64 {
    let n = width as f64;
    let nu = (n + 4.0) * f64::from(f32::EPSILON) / 2.0;
    if nu >= 1.0 {
        return f64::INFINITY;
    }
    let change = image.packing_error + caption.packing_error;
    let (relative, largest) = (nu / (1.0 - nu), image.norm + caption.norm + change);
    let underflow = n * f64::from(f32::MIN_POSITIVE);
    match penalty {
        OrderPenalty::Norm => relative * largest + underflow.sqrt() + change,
        OrderPenalty::Squared => relative * largest * largest + underflow + 2.0 * largest * change,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::ElementType;
    use crate::random::Rng;

    #[test]
    fn a_violation_is_the_excess_of_the_caption_over_the_image() {
        // Violations 0, 3 and 4.
        let (image, caption) = ([1.0, 2.0, 0.5], [0.5, 5.0, 4.5]);
        assert_eq!(order_similarity(&image, &caption, OrderPenalty::Norm), -5.0);
        assert_eq!(order_similarity(&image, &caption, OrderPenalty::Squared), -25.0);
        assert_eq!(order_similarity(&caption, &image, OrderPenalty::Norm), -0.5);
        assert_eq!(order_similarity(&image, &image, OrderPenalty::Norm), 0.0);
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    fn an_f32_sum_stays_within_the_bound() {
        let mut rng = Rng::new(6, &[]);
        for width in [1, 7, 64, 1024, 4099] {
            let mut random = || -> Vec<f32> { (0..width).map(|_| rng.uniform() as f32).collect() };
            let (image, caption) = (random(), random());
            for penalty in [OrderPenalty::Norm, OrderPenalty::Squared] {
                let sum = image.iter().zip(&caption).fold(0.0f32, |sum, (x, c)| sum + (c - x).max(0.0).powi(2));
                let got = if penalty == OrderPenalty::Norm { -sum.sqrt() } else { -sum };
                let bound = order_similarity_error(
                    width,
                    penalty,
                    NormBound::of_packed(ElementType::F32, &image),
                    NormBound::of_packed(ElementType::F32, &caption),
                );
                assert!(
                    (f64::from(got) - f64::from(order_similarity(&image, &caption, penalty))).abs() <= bound,
                    "{width}"
                );
            }
        }
    }
}
