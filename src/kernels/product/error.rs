//! How far a product of packed vectors can be from [`dot`](crate::dot::dot).
//!
//! Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, section 3.1.
//!
//! Let ã and b̃ be the vectors as they are packed (for [`Lanes::F32`] the vectors themselves), δa = ã − a and δb = b̃ − b what
//! packing changes, n the width, `u = 2⁻²⁴`, γ = n·u / (1 − n·u). Then
//!
//! 1. a tile sums the n products of ã and b̃ in f32, from 0. Products of bf16 are exact in f32; those of f32 are rounded, or
//!    fused into the sum, and the first sum, with 0, is exact. So no product goes through more than n roundings, in whatever
//!    order they are summed: the sum is within γ·Σ|ãᵢ·b̃ᵢ| of ã·b̃, and so, by the Cauchy-Schwarz inequality, within
//!    γ·‖ã‖·‖b̃‖;
//! 2. ã·b̃ − a·b = ã·δb + δa·b, which is at most ‖ã‖·‖δb‖ + ‖δa‖·‖b‖;
//! 3. [`dot`](crate::dot::dot) is within 2u·‖a‖·‖b‖ of a·b: one rounding to f32, doubled so that it covers the f64
//!    sum;
//! 4. processors may take numbers below 2⁻¹²⁶ for 0. Of a product of bf16, of a partial sum and of the result that costs at
//!    most 2⁻¹²⁶ each, 2⁻¹²⁵·(n + 1) in all; a number that is packed to one of them counts as packed to 0 in δa.
//!
//! All of it holds for a product of a library in f32, on whatever device, with δa what numbers of a that count as 0 are.
//!
//! ‖ã‖ ≤ ‖a‖ + ‖δa‖. The norms of δa are those that were measured, not the largest that are possible: of the vectors of a
//! trained model less than half, and the bound with them.

use super::lanes::Lanes;
use super::pack::bf16;

/// What a bound must know of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Extent {
    /// ‖a‖.
    pub norm: f64,
    /// ‖δa‖: the norm of what packing changes.
    pub lost: f64,
}

impl Extent {
    /// Of a vector that is packed with these lanes. Cost: one step an entry.
    #[must_use]
    pub fn of(lanes: Lanes, vector: &[f32]) -> Self {
        let lost = match lanes {
            Lanes::F32 => 0.0,
            Lanes::Bf16 => norm(vector, |value| {
                let packed = f32::from_bits(bf16(value) & 0xffff_0000);
                let packed = if packed.abs() < f32::MIN_POSITIVE { 0.0 } else { packed };
                f64::from(value) - f64::from(packed)
            }),
        };
        Self { norm: norm(vector, f64::from), lost }
    }

    /// Of a vector of this norm that something else than a tile multiplies in f32, and takes numbers below 2⁻¹²⁶ for 0.
    ///
    /// ‖δa‖ ≤ √n·2⁻¹²⁶, which counts twice: differences of the numbers of two vectors, which order similarity is made of,
    /// may be so small as well.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "widths are far below 2⁵³")]
    pub fn elsewhere(norm: f64, width: usize) -> Self {
        Self { norm, lost: 2.0 * f64::from(f32::MIN_POSITIVE) * (width as f64).sqrt() }
    }

    /// The larger of both numbers each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { norm: self.norm.max(other.norm), lost: self.lost.max(other.lost) }
    }
}

/// The square root of the sum of the squares, in lanes that the compiler may put side by side.
fn norm(vector: &[f32], value: impl Fn(f32) -> f64) -> f64 {
    let (blocks, rest) = vector.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for block in blocks {
        for (sum, &x) in sums.iter_mut().zip(block) {
            let x = value(x);
            *sum += x * x;
        }
    }
    let rest: f64 = rest.iter().map(|&x| value(x) * value(x)).sum();
    (sums.iter().sum::<f64>() + rest).sqrt()
}

/// A bound on `|s − dot(a, b)|`, where `s` is what a tile gives for a and b: see the top of this file. It grows with all four
/// numbers. Infinite where `n·u ≥ 1`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "widths are far below 2⁵³")]
pub fn product_error(width: usize, a: Extent, b: Extent) -> f64 {
    let (n, unit) = (width as f64, f64::from(f32::EPSILON) / 2.0);
    if n * unit >= 1.0 {
        return f64::INFINITY;
    }
    let gamma = n * unit / (1.0 - n * unit);
    let packed = [a.norm + a.lost, b.norm + b.lost];
    let bound = gamma * packed[0] * packed[1] + packed[0] * b.lost + a.lost * b.norm + 2.0 * unit * a.norm * b.norm;
    // The norms are rounded too, by less than that.
    bound * (1.0 + 1e-9) + (n + 1.0) * 2.0 * f64::from(f32::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dot::dot;
    use crate::product::{Left, Right, Tile, tile};
    use crate::sample::Sample;

    /// For the signs that round all one way the bf16 bound is met to within a half; nothing is ever beyond it.
    #[test]
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "test values are small")]
    fn tiles_are_within_the_bound_and_it_is_not_much_larger() {
        let mut sample = Sample::new(3, &[]);
        for lanes in [Lanes::F32, Lanes::Bf16] {
            for width in [1, 2, 7, 64, 300, 1024] {
                let mut closest: f64 = 0.0;
                for case in 0..60 {
                    let mut vector = || -> Vec<f32> {
                        (0..width)
                            .map(|_| match case {
                                0..20 => (sample.unit() - 0.5) as f32,
                                // Halfway between two bf16, and always rounded up.
                                20..40 => 1.0 + 0.999 / 256.0 + sample.below(2) as f32,
                                // Far apart, and some below the smallest normal number.
                                _ => ((sample.unit() - 0.5) as f32) * (sample.below(80) as f32).exp2().recip() * 1e-16,
                            })
                            .collect()
                    };
                    let (a, b) = (vector(), vector());
                    let left = Left::from_rows(lanes, 1, width, |_| &a);
                    let right = Right::from_columns(lanes, width, 1, |_| &b);
                    let mut out = Tile::ZERO;
                    tile(lanes, 1, left.panel(0), right.panel(0), &mut out);
                    let bound = product_error(width, Extent::of(lanes, &a), Extent::of(lanes, &b));
                    let error = (f64::from(out.0[0][0]) - f64::from(dot(&a, &b))).abs();
                    assert!(error <= bound, "{lanes:?} {width} {case}: {error:e} > {bound:e}");
                    closest = closest.max(error / bound);
                }
                assert!(lanes == Lanes::F32 || closest > 0.5, "{width}: {closest}");
            }
        }
    }

    /// Forwards or backwards, fused or not, with small numbers as they are or as 0.
    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    fn any_f32_sum_is_within_the_bound() {
        let mut sample = Sample::new(4, &[]);
        for width in [1, 7, 64, 1024, 4099] {
            for scale in [1.0, 2f64.powi(-126)] {
                let mut vector = |scale: f64| -> Vec<f32> {
                    (0..width).map(|_| (scale * (sample.unit() * 2.0 - 1.0)) as f32).collect()
                };
                let (a, b) = (vector(scale), vector(1e15));
                let of = |vector: &[f32]| Extent::elsewhere(Extent::of(Lanes::F32, vector).norm, width);
                let bound = product_error(width, of(&a), of(&b));
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
    fn f32_loses_nothing_by_packing() {
        let extent = Extent::of(Lanes::F32, &[3.0, 4.0]);
        assert_eq!(extent, Extent { norm: 5.0, lost: 0.0 });
        // γ + 2u of n = 1024, times 25.
        let bound = product_error(1024, extent, extent);
        assert!((bound / (25.0 * 1026.0 / 2f64.powi(24)) - 1.0).abs() < 1e-4, "{bound}");
        // 1 + 2⁻⁸ lies halfway and becomes 1.
        assert_eq!(Extent::of(Lanes::Bf16, &[1.0 + 1.0 / 256.0]).lost, 1.0 / 256.0);
        assert_eq!(product_error(1 << 24, extent, extent), f64::INFINITY);
    }
}
