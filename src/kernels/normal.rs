//! The logarithm of the standard normal cumulative distribution function, accurate far into its tail.
//!
//! Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.2.11 (series) and 26.2.14 (continued fraction).

use std::sync::LazyLock;

/// ln √(2π).
const LN_ROOT_TAU: f64 = 0.918_938_533_204_672_7;

/// `ln Φ(z)`, with a relative error of at most 1e-12 or an absolute error of at most 1e-15.
///
/// # Edge cases
/// −∞ gives −∞, ∞ gives 0, and NaN gives NaN.
///
/// # Cost
/// Up to 120 divisions.
#[must_use]
pub fn log_ndtr(z: f64) -> f64 {
    if z == f64::NEG_INFINITY {
        return z;
    }
    let density = -0.5 * z * z - LN_ROOT_TAU;
    if z < -2.5 {
        return density + mills_ratio(-z).ln();
    }
    if z > 2.5 {
        return (-(density.exp() * mills_ratio(z))).ln_1p();
    }
    // z + z³/3 + z⁵/(3·5) + …: all terms have the same sign.
    let (mut term, mut sum, mut odd) = (z, z, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        odd += 2.0;
        term *= z * z / odd;
        sum += term;
    }
    (0.5 + density.exp() * sum).ln()
}

/// Mills ratio `(1 − Φ(x)) / φ(x)` for `x ≥ 2.5`: the continued fraction 1/(x + 1/(x + 2/(x + 3/(x + …)))), evaluated
/// from its innermost term.
fn mills_ratio(x: f64) -> f64 {
    1.0 / (1..=120u32).rev().fold(x, |below, k| x + f64::from(k) / below)
}

/// [`log_ndtr`] with an absolute error of at most 1e-8, fast enough to be applied to every score: cubic Hermite
/// interpolation in a table.
#[must_use]
pub fn log_ndtr_approx(z: f64) -> f64 {
    let place = (z - TABLE_START) * STEPS_PER_UNIT;
    if place < 0.0 || z.is_nan() {
        return log_ndtr(z);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the position is not negative")]
    let left = place as usize;
    let Some(&[(from, slope), (to, end_slope)]) = TABLE.get(left..).and_then(<[_]>::first_chunk) else { return 0.0 };
    #[expect(clippy::cast_precision_loss, reason = "tables are far below 2⁵³")]
    let t = place - left as f64;
    let (slope, end_slope) = (slope / STEPS_PER_UNIT, end_slope / STEPS_PER_UNIT);
    let rise = to - from;
    from + t * (slope + t * ((3.0 * rise - 2.0 * slope - end_slope) + t * (slope + end_slope - 2.0 * rise)))
}

/// The first z of the table. It ends at z = 9; beyond, the value is 0 to 18 digits.
const TABLE_START: f64 = -16.0;
/// Intervals of the table per unit of z.
const STEPS_PER_UNIT: f64 = 32.0;

/// Value and derivative at each point of the table.
static TABLE: LazyLock<Vec<(f64, f64)>> = LazyLock::new(|| {
    (0..=25 * 32u32)
        .map(|place| {
            let z = TABLE_START + f64::from(place) / STEPS_PER_UNIT;
            let value = log_ndtr(z);
            (value, (-0.5 * z * z - LN_ROOT_TAU - value).exp())
        })
        .collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    /// The golden file of `hubness` has the values in between.
    #[test]
    fn infinities_zero_and_nan_have_their_limits() {
        assert_eq!((log_ndtr(f64::NEG_INFINITY), log_ndtr(f64::INFINITY)), (f64::NEG_INFINITY, 0.0));
        assert_eq!(log_ndtr(0.0), 0.5f64.ln());
        assert!(log_ndtr(f64::NAN).is_nan() && log_ndtr_approx(f64::NAN).is_nan());
    }

    #[test]
    fn the_approximation_is_within_its_bound() {
        for i in -20_000..20_000 {
            let z = f64::from(i) * 1.1e-3;
            assert!((log_ndtr_approx(z) - log_ndtr(z)).abs() < 1e-8, "{z}");
        }
        assert_eq!(log_ndtr_approx(f64::NEG_INFINITY), f64::NEG_INFINITY);
        assert_eq!(log_ndtr_approx(1e300), 0.0);
    }
}
