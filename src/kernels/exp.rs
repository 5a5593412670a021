//! The exponential of f64, written so that the compiler may use vector instructions and every machine gives the same bits.
//!
//! Cody and Waite, "Software Manual for the Elementary Functions", 1980: the argument is reduced by a multiple of ln 2, and
//! a polynomial does the rest.

/// e to the power of `x`, within 4e-16 of the value; what is below −708 counts as −708, which no sum beside 1 notices.
///
/// # Edge cases
/// `x` is at most 709; above, and for what is not a number, the result means nothing.
///
/// # Cost
/// 14 products and sums, no branch.
#[inline]
#[must_use]
pub fn exp(x: f64) -> f64 {
    // Adding 1.5·2⁵² leaves the nearest whole number in the lowest bits, without an instruction for rounding.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let x = x.max(-708.0);
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let rest = (x - whole * LN_2_HIGH) - whole * LN_2_LOW;
    let series = INVERSE_FACTORIALS.iter().fold(0.0, |sum, &term| sum * rest + term);
    // The whole number becomes the exponent.
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    series * power
}

/// 1/12! to 1/0!.
const INVERSE_FACTORIALS: [f64; 13] = [
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
    1.0,
    1.0,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::sample::Sample;

    #[test]
    fn is_the_exponential_of_the_standard_library() {
        let mut sample = Sample::new(1, &[]);
        for _ in 0..200_000 {
            let x = sample.unit() * 1416.0 - 708.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 4e-16 * 2.0, "{x}");
        }
        for x in [0.0, -0.0, 1.0, -1.0, 0.346_573, 709.0, -708.0] {
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-15, "{x}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f64::NEG_INFINITY), exp(-708.0));
    }
}
