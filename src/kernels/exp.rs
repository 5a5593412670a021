//! Exponential function in f32 that compilers can vectorise.
//!
//! `eˣ = 2ⁿ·eʳ` with `n` the integer nearest to `x / ln 2` and `|r| ≤ ln 2 / 2`; `eʳ` by its Taylor polynomial of
//! degree 7 (Muller, "Elementary Functions", 3rd edition, chapter 11 on range reduction).

/// Largest argument; for larger ones the result is that of this one.
pub const MAX_ARGUMENT: f32 = 88.0;
/// Smallest argument; below it the result is 0, because `eˣ` is less than the smallest normal number.
pub const MIN_ARGUMENT: f32 = -87.0;

/// `eˣ`.
///
/// Multiplications and additions are rounded separately, so every CPU gives the same bits. The relative error is below
/// 2⁻²²: 5·10⁻⁹ from the polynomial, the rest from rounding. Below [`MIN_ARGUMENT`] the result is 0, above
/// [`MAX_ARGUMENT`] it is e^[`MAX_ARGUMENT`], for NaN it is 0.
#[inline(always)]
#[must_use]
pub fn exp(x: f32) -> f32 {
    /// Rounding constant 1.5 · 2²³: adding it rounds a number to an integer, which is then in the lowest bits.
    const SHIFT: f32 = 12_582_912.0;
    /// ln 2 in two parts; the first has few enough bits that its multiples are exact.
    const LN2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let small = if x < MAX_ARGUMENT { x } else { MAX_ARGUMENT };
    let small = if small > MIN_ARGUMENT { small } else { MIN_ARGUMENT };
    let shifted = small * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = (small - n * LN2[0]) - n * LN2[1];
    let mut sum = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = sum * r + coefficient;
    }
    // The lowest bits of `shifted` are n: moved to the exponent they multiply by 2ⁿ.
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    if x >= MIN_ARGUMENT { sum * power } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with `f64::exp` over the whole range.
    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    fn the_relative_error_is_below_the_bound() {
        let mut worst: f64 = 0.0;
        for i in 0..=4_000_000u32 {
            let x = MIN_ARGUMENT + (MAX_ARGUMENT - MIN_ARGUMENT) * (f64::from(i) / 4e6) as f32;
            if !(MIN_ARGUMENT..=MAX_ARGUMENT).contains(&x) {
                continue;
            }
            let exact = f64::from(x).exp();
            worst = worst.max(((f64::from(exp(x)) - exact) / exact).abs());
        }
        assert!(worst < 2f64.powi(-22), "{worst:e}");
    }

    #[test]
    fn limits_of_the_range() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!([exp(-87.1), exp(f32::NEG_INFINITY), exp(f32::NAN)], [0.0; 3]);
        assert_eq!(exp(f32::INFINITY), exp(MAX_ARGUMENT));
        assert!(exp(MAX_ARGUMENT).is_finite() && exp(MIN_ARGUMENT) >= f32::MIN_POSITIVE);
    }
}
