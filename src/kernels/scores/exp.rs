//! The exponential function in f32, in a form that compilers turn into vector instructions.
//!
//! `eˣ = 2ⁿ·eʳ` with `n` the integer nearest to `x / ln 2` and `|r| ≤ ln 2 / 2`; `eʳ` by its Taylor polynomial of degree 7
//! (Muller, "Elementary Functions", 3rd edition, chapter 11 on range reduction).

/// The largest argument: beyond it the result stays that of it.
pub const LARGEST: f32 = 88.0;
/// Below it the result is 0: what `eˣ` is there is less than the smallest normal number.
pub const SMALLEST: f32 = -87.0;

/// `eˣ`.
///
/// Separate multiplications and additions, each rounded, so every processor gives the same bits. The relative error is below
/// 2⁻²²: 5·10⁻⁹ for the polynomial, the rest rounding. Below [`SMALLEST`] the result is 0, above [`LARGEST`] it is
/// e^[`LARGEST`]; of what is not a number it is 0.
#[inline(always)]
#[must_use]
pub fn exp(x: f32) -> f32 {
    /// 1.5 · 2²³: what is added to it is rounded to an integer, which then lies in the lowest bits.
    const SHIFT: f32 = 12_582_912.0;
    /// ln 2 in two parts; the first has few enough bits that its multiples are exact.
    const LN2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let small = if x < LARGEST { x } else { LARGEST };
    let small = if small > SMALLEST { small } else { SMALLEST };
    let shifted = small * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = (small - n * LN2[0]) - n * LN2[1];
    let mut sum = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = sum * r + coefficient;
    }
    // The lowest bits of `shifted` are n: moved to the exponent they multiply by 2ⁿ.
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    if x >= SMALLEST { sum * power } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the f64 function of the standard library, all along the range.
    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    fn the_error_is_as_stated() {
        let mut worst: f64 = 0.0;
        for i in 0..=4_000_000u32 {
            let x = SMALLEST + (LARGEST - SMALLEST) * (f64::from(i) / 4e6) as f32;
            if !(SMALLEST..=LARGEST).contains(&x) {
                continue;
            }
            let exact = f64::from(x).exp();
            worst = worst.max(((f64::from(exp(x)) - exact) / exact).abs());
        }
        assert!(worst < 2f64.powi(-22), "{worst:e}");
    }

    #[test]
    fn the_ends() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!([exp(-87.1), exp(f32::NEG_INFINITY), exp(f32::NAN)], [0.0; 3]);
        assert_eq!(exp(f32::INFINITY), exp(LARGEST));
        assert!(exp(LARGEST).is_finite() && exp(SMALLEST) >= f32::MIN_POSITIVE);
    }
}
