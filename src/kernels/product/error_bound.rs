//! Error bound of a product of packed vectors, relative to [`dot`](crate::distance::dot).
//!
//! Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, section 3.1.
//!
//! Let ã and b̃ be the packed vectors (for [`ElementType::F32`] the vectors themselves), δa = ã − a and δb = b̃ − b the
//! errors of packing, n the width, `u = 2⁻²⁴`, γ = n·u / (1 − n·u). Then
//!
//! 1. A tile sums the n products of ã and b̃ in f32, from 0. Products of bf16 are exact in f32; those of f32 are
//!    rounded, or fused with the sum, and the first sum, with 0, is exact. So each product passes through at most n
//!    roundings, in any order of summation. The sum is within γ·Σ|ãᵢ·b̃ᵢ| of ã·b̃, and, by the Cauchy-Schwarz
//!    inequality, within γ·‖ã‖·‖b̃‖.
//! 2. ã·b̃ − a·b = ã·δb + δa·b, which is at most ‖ã‖·‖δb‖ + ‖δa‖·‖b‖.
//! 3. [`dot`](crate::distance::dot) is within 2u·‖a‖·‖b‖ of a·b: one rounding to f32, doubled to cover the f64 sum.
//! 4. CPUs may flush numbers below 2⁻¹²⁶ to 0. The error is at most 2⁻¹²⁶ for each product of bf16, each partial sum
//!    and the result, 2⁻¹²⁵·(n + 1) in total. Packed values below 2⁻¹²⁶ count as 0 in δa.
//!
//! The same bound holds for a product in f32 by a library on any device; there δa is the error of flushing small values
//! to 0.
//!
//! ‖ã‖ ≤ ‖a‖ + ‖δa‖. The norm of δa is computed, not estimated by its upper bound. For vectors of a trained model this
//! makes the norm and the error bound less than half as large.

#![expect(clippy::inline_always, reason = "functions take the instructions of the function that they are in")]

use super::pack::{ElementType, round_to_bf16};
use crate::cpu::widest;

/// Partial sums: four vectors of AVX-512.
const LANES: usize = 32;

/// Norms of a vector that the error bound depends on, or upper bounds of them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct NormBound {
    /// Norm ‖a‖ of the vector.
    pub norm: f64,
    /// Norm ‖δa‖ of the error of packing.
    pub packing_error: f64,
}

impl NormBound {
    /// Norms of a vector that is packed with this element type. Cost: `O(width)` time.
    #[must_use]
    pub fn of_packed(element_type: ElementType, vector: &[f32]) -> Self {
        let [squares, lost] = match element_type {
            ElementType::F32 => [squares(vector), 0.0],
            ElementType::Bf16 => squares_and_lost(vector),
        };
        Self { norm: squares.sqrt(), packing_error: lost.sqrt() }
    }

    /// Bounds for a vector that a library multiplies in f32, which may flush numbers below 2⁻¹²⁶ to 0.
    ///
    /// ‖δa‖ ≤ √n·2⁻¹²⁶. This is doubled, because order similarity sums differences of two vectors, and these may be
    /// flushed too.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "widths are far below 2⁵³")]
    pub fn of_unpacked(norm: f64, width: usize) -> Self {
        Self { norm, packing_error: 2.0 * f64::from(f32::MIN_POSITIVE) * (width as f64).sqrt() }
    }

    /// Element-wise maximum.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { norm: self.norm.max(other.norm), packing_error: self.packing_error.max(other.packing_error) }
    }
}

/// Sum of squares.
fn squares(vector: &[f32]) -> f64 {
    #[inline(always)]
    fn sum(vector: &[f32]) -> f64 {
        sums_of_squares(vector, |value| [f64::from(value)]).into_iter().sum()
    }
    widest!(sum(vector: &[f32]) -> f64)
}

/// Sums of the squares of the values, and of the errors of packing as bf16.
fn squares_and_lost(vector: &[f32]) -> [f64; 2] {
    #[inline(always)]
    fn sums(vector: &[f32]) -> [f64; 2] {
        sums_of_squares(vector, |value| {
            let packed = f32::from_bits(round_to_bf16(value) & 0xffff_0000);
            let packed = if packed.abs() < f32::MIN_POSITIVE { 0.0 } else { packed };
            [f64::from(value), f64::from(value) - f64::from(packed)]
        })
    }
    widest!(sums(vector: &[f32]) -> [f64; 2])
}

/// Sums of the squares of N numbers for each value, with partial sums, so that additions do not wait for each other.
#[inline(always)]
fn sums_of_squares<const N: usize>(vector: &[f32], numbers: impl Fn(f32) -> [f64; N]) -> [f64; N] {
    let (blocks, rest) = vector.as_chunks::<LANES>();
    let mut sums = [[0.0; LANES]; N];
    for block in blocks {
        for lane in 0..LANES {
            for (sums, number) in sums.iter_mut().zip(numbers(block[lane])) {
                sums[lane] += number * number;
            }
        }
    }
    let mut totals = sums.map(|sums| sums.iter().sum::<f64>());
    for &value in rest {
        for (total, number) in totals.iter_mut().zip(numbers(value)) {
            *total += number * number;
        }
    }
    totals
}

/// Upper bound of `|s − dot(a, b)|`, where `s` is the product of a and b in a tile; derived at the top of this file. It
/// increases with all four norms. Infinite if `n·u ≥ 1`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "widths are far below 2⁵³")]
pub fn product_error_bound(width: usize, a: NormBound, b: NormBound) -> f64 {
    let (n, unit) = (width as f64, f64::from(f32::EPSILON) / 2.0);
    if n * unit >= 1.0 {
        return f64::INFINITY;
    }
    let gamma = n * unit / (1.0 - n * unit);
    let packed = [a.norm + a.packing_error, b.norm + b.packing_error];
    let bound = gamma * packed[0] * packed[1]
        + packed[0] * b.packing_error
        + a.packing_error * b.norm
        + 2.0 * unit * a.norm * b.norm;
    // The factor covers the rounding of the norms.
    bound * (1.0 + 1e-9) + (n + 1.0) * 2.0 * f64::from(f32::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distance::dot;
    use crate::product::{LeftFactor, RightFactor, Tile, add_product};
    use crate::random::Rng;

    /// Errors are within the bound. If all bf16 values are rounded in the same direction, errors exceed half of the
    /// bound.
    #[test]
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "test values are small")]
    fn tiles_are_within_the_bound_and_it_is_not_much_larger() {
        let mut rng = Rng::new(3, &[]);
        for element_type in [ElementType::F32, ElementType::Bf16] {
            const WIDTHS: &[usize] = if cfg!(miri) { &[1, 7] } else { &[1, 2, 7, 64, 300, 1024] };
            for &width in WIDTHS {
                let mut closest: f64 = 0.0;
                for case in (0..60).step_by(if cfg!(miri) { 10 } else { 1 }) {
                    let mut vector = || -> Vec<f32> {
                        (0..width)
                            .map(|_| match case {
                                0..20 => (rng.uniform() - 0.5) as f32,
                                // Halfway between two bf16, and always rounded up.
                                20..40 => 1.0 + 0.999 / 256.0 + rng.uniform_below(2) as f32,
                                // Far apart, and some below the smallest normal number.
                                _ => {
                                    ((rng.uniform() - 0.5) as f32)
                                        * (rng.uniform_below(80) as f32).exp2().recip()
                                        * 1e-16
                                }
                            })
                            .collect()
                    };
                    let (a, b) = (vector(), vector());
                    let left = LeftFactor::from_rows(element_type, 1, width, |_| &a);
                    let right = RightFactor::from_columns(element_type, width, 1, |_| &b);
                    let mut out = Tile::ZERO;
                    add_product(element_type, 1, left.panel(0), right.panel(0), &mut out);
                    let bound = product_error_bound(
                        width,
                        NormBound::of_packed(element_type, &a),
                        NormBound::of_packed(element_type, &b),
                    );
                    let error = (f64::from(out.0[0][0]) - f64::from(dot(&a, &b))).abs();
                    assert!(error <= bound, "{element_type:?} {width} {case}: {error:e} > {bound:e}");
                    closest = closest.max(error / bound);
                }
                assert!(element_type == ElementType::F32 || closest > 0.5, "{width}: {closest}");
            }
        }
    }

    /// Sums forwards or backwards, fused or not, with small numbers flushed to 0 or not.
    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    fn any_f32_sum_is_within_the_bound() {
        let mut rng = Rng::new(4, &[]);
        const WIDTHS: &[usize] = if cfg!(miri) { &[1, 7] } else { &[1, 7, 64, 1024, 4099] };
        for &width in WIDTHS {
            for scale in [1.0, 2f64.powi(-126)] {
                let mut vector = |scale: f64| -> Vec<f32> {
                    (0..width).map(|_| (scale * (rng.uniform() * 2.0 - 1.0)) as f32).collect()
                };
                let (a, b) = (vector(scale), vector(1e15));
                let norm =
                    |vector: &[f32]| NormBound::of_unpacked(NormBound::of_packed(ElementType::F32, vector).norm, width);
                let bound = product_error_bound(width, norm(&a), norm(&b));
                let flushed = |x: f32| if x.abs() < f32::MIN_POSITIVE { 0.0 } else { x };
                let forward = a.iter().zip(&b).fold(0.0f32, |sum, (a, b)| sum + a * b);
                let backward = a.iter().zip(&b).rev().fold(0.0f32, |sum, (a, b)| a.mul_add(*b, sum));
                let coarse = a.iter().zip(&b).fold(0.0f32, |sum, (a, b)| flushed(sum + flushed(flushed(*a) * b)));
                for got in [forward, backward, coarse] {
                    let error = (f64::from(got) - f64::from(dot(&a, &b))).abs();
                    assert!(error <= bound, "width {width}, {scale:e}: {error:e} > {bound:e}");
                }
            }
        }
    }

    #[test]
    fn packing_f32_has_no_error() {
        let extent = NormBound::of_packed(ElementType::F32, &[3.0, 4.0]);
        assert_eq!(extent, NormBound { norm: 5.0, packing_error: 0.0 });
        // γ + 2u of n = 1024, times 25.
        let bound = product_error_bound(1024, extent, extent);
        assert!((bound / (25.0 * 1026.0 / 2f64.powi(24)) - 1.0).abs() < 1e-4, "{bound}");
        // 1 + 2⁻⁸ lies halfway and becomes 1.
        assert_eq!(NormBound::of_packed(ElementType::Bf16, &[1.0 + 1.0 / 256.0]).packing_error, 1.0 / 256.0);
        assert_eq!(product_error_bound(1 << 24, extent, extent), f64::INFINITY);
    }
}
