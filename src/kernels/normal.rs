//! The logarithm of the standard normal distribution function, far into its tail.
//!
//! Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.2.11 (series) and 26.2.14 (continued fraction).

use std::sync::LazyLock;

/// ln √(2π).
const LN_ROOT_TAU: f64 = 0.918_938_533_204_672_7;

/// `ln Φ(z)`, within 1e-12 of its size, or 1e-15.
///
/// # Edge cases
/// −∞ and ∞ give −∞ and 0; what is not a number stays none.
///
/// # Cost
/// Up to 120 divisions.
#[must_use]
pub fn ln_phi(z: f64) -> f64 {
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
    // z + z³/3 + z⁵/(3·5) + …: all of one sign.
    let (mut term, mut sum, mut odd) = (z, z, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        odd += 2.0;
        term *= z * z / odd;
        sum += term;
    }
    (0.5 + density.exp() * sum).ln()
}

/// `(1 − Φ(x)) / φ(x)` for `x` of at least 2.5: 1/(x + 1/(x + 2/(x + 3/(x + …)))), from its far end.
fn mills_ratio(x: f64) -> f64 {
    1.0 / (1..=120u32).rev().fold(x, |below, k| x + f64::from(k) / below)
}

/// [`ln_phi`] within 1e-8, fast enough for every score: cubic pieces between exact values and slopes.
#[must_use]
pub fn ln_phi_near(z: f64) -> f64 {
    let place = (z - LOWEST) * STEPS;
    if place < 0.0 || z.is_nan() {
        return ln_phi(z);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the place is not negative")]
    let left = place as usize;
    let Some(&[(from, slope), (to, end_slope)]) = TABLE.get(left..).and_then(<[_]>::first_chunk) else { return 0.0 };
    #[expect(clippy::cast_precision_loss, reason = "tables are far below 2⁵³")]
    let t = place - left as f64;
    let (slope, end_slope) = (slope / STEPS, end_slope / STEPS);
    let rise = to - from;
    from + t * (slope + t * ((3.0 * rise - 2.0 * slope - end_slope) + t * (slope + end_slope - 2.0 * rise)))
}

/// Where the table begins; it ends at 9, from where on the value is 0 to 18 digits.
const LOWEST: f64 = -16.0;
/// Pieces of a unit.
const STEPS: f64 = 32.0;

/// Values and slopes.
static TABLE: LazyLock<Vec<(f64, f64)>> = LazyLock::new(|| {
    (0..=25 * 32u32)
        .map(|place| {
            let z = LOWEST + f64::from(place) / STEPS;
            let value = ln_phi(z);
            (value, (-0.5 * z * z - LN_ROOT_TAU - value).exp())
        })
        .collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    /// Values between are in the golden file of `hubness`.
    #[test]
    fn ends() {
        assert_eq!((ln_phi(f64::NEG_INFINITY), ln_phi(f64::INFINITY)), (f64::NEG_INFINITY, 0.0));
        assert_eq!(ln_phi(0.0), 0.5f64.ln());
        assert!(ln_phi(f64::NAN).is_nan() && ln_phi_near(f64::NAN).is_nan());
    }

    #[test]
    fn the_table_is_near() {
        for i in -20_000..20_000 {
            let z = f64::from(i) * 1.1e-3;
            assert!((ln_phi_near(z) - ln_phi(z)).abs() < 1e-8, "{z}");
        }
        assert_eq!(ln_phi_near(f64::NEG_INFINITY), f64::NEG_INFINITY);
        assert_eq!(ln_phi_near(1e300), 0.0);
    }
}
