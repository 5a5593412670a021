//! Order violation: how far a caption is from being a more abstract version of an image (Vendrov, Kiros, Fidler, Urtasun,
//! "Order-Embeddings of Images and Language", ICLR 2016).
//!
//! [`order`] is the definition. Three fast forms compute the same in f32: `product::violation` in tiles, for a search on the
//! processor, and in the crate above `model::products` on a GPU, for a search there, both within [`order_error`]; and
//! `model::similarity` on tensors of a batch, for training, with the gradient.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::product::Extent;

/// What is made of the violations max(0, caption − image).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Their L2 norm, negative: −‖max(0, caption − image)‖₂ (VSE++'s code, and HAL's).
    #[default]
    Norm,
    /// The sum of their squares, negative: −Σ max(0, caption − image)² (the paper).
    Squared,
}

/// The score of an image and a caption, at most 0: 0 where the caption is nowhere above the image.
///
/// A pure function of the two vectors, summed in f64 and rounded once to f32. Slices of different lengths are cut to the
/// shorter one. Cost: one step an entry.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "a score is the f32 nearest to the sum")]
pub fn order(image: &[f32], caption: &[f32], form: Form) -> f32 {
    let squares = image.iter().zip(caption).map(|(&x, &c)| {
        let violation = (f64::from(c) - f64::from(x)).max(0.0);
        violation * violation
    });
    let sum: f64 = squares.sum();
    let distance = match form {
        Form::Norm => sum.sqrt(),
        Form::Squared => sum,
    };
    // Not −0.
    0.0 - distance as f32
}

/// A bound on `|s − order(image, caption)|`, where `s` is the same score computed in f32 in any order.
///
/// All terms of the sum have one sign, so its relative error is at most γ = (n + 4)·u / (1 − (n + 4)·u) with `u = 2⁻²⁴`: one
/// rounding for the difference, counted twice, one for the square, `n` for the sum, one for [`order`] (Higham, "Accuracy and
/// Stability of Numerical Algorithms", chapter 3). A score is at most ‖image‖ + ‖caption‖, or its square; what underflows is
/// added.
///
/// Where the vectors are not taken as they are, violations move by no more than both of them together, in norm, since
/// max(0, ·) moves no more than what is in it: by δ = ‖δimage‖ + ‖δcaption‖, and their squares by at most twice their norm
/// times that.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "widths are far below 2⁵³")]
pub fn order_error(width: usize, form: Form, image: Extent, caption: Extent) -> f64 {
    let n = width as f64;
    let nu = (n + 4.0) * f64::from(f32::EPSILON) / 2.0;
    if nu >= 1.0 {
        return f64::INFINITY;
    }
    let lost = image.lost + caption.lost;
    let (relative, largest) = (nu / (1.0 - nu), image.norm + caption.norm + lost);
    let smallest = n * f64::from(f32::MIN_POSITIVE);
    match form {
        Form::Norm => relative * largest + smallest.sqrt() + lost,
        Form::Squared => relative * largest * largest + smallest + 2.0 * largest * lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::Lanes;
    use crate::sample::Sample;

    #[test]
    fn a_violation_is_what_the_caption_exceeds_the_image_by() {
        // Violations 0, 3 and 4.
        let (image, caption) = ([1.0, 2.0, 0.5], [0.5, 5.0, 4.5]);
        assert_eq!(order(&image, &caption, Form::Norm), -5.0);
        assert_eq!(order(&image, &caption, Form::Squared), -25.0);
        assert_eq!(order(&caption, &image, Form::Norm), -0.5);
        assert_eq!(order(&image, &image, Form::Norm), 0.0);
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    fn an_f32_sum_stays_within_the_bound() {
        let mut sample = Sample::new(6, &[]);
        for width in [1, 7, 64, 1024, 4099] {
            let mut random = || -> Vec<f32> { (0..width).map(|_| sample.unit() as f32).collect() };
            let (image, caption) = (random(), random());
            for form in [Form::Norm, Form::Squared] {
                let sum = image.iter().zip(&caption).fold(0.0f32, |sum, (x, c)| sum + (c - x).max(0.0).powi(2));
                let got = if form == Form::Norm { -sum.sqrt() } else { -sum };
                let bound = order_error(width, form, Extent::of(Lanes::F32, &image), Extent::of(Lanes::F32, &caption));
                assert!((f64::from(got) - f64::from(order(&image, &caption, form))).abs() <= bound, "{width}");
            }
        }
    }
}
