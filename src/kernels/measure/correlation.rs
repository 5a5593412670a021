//! Pearson's and Spearman's correlation coefficients.
//!
//! Pearson, "Notes on regression and inheritance in the case of two parents", 1895; Spearman, "The proof and
//! measurement of association between two things", 1904. Ties share their mean rank, as in every statistics package.

/// Pearson's r of two samples; `None` if either is constant (or varies so little that its variance underflows), or has
/// fewer than two values.
///
/// `Σ(x−x̄)(y−ȳ) / √(Σ(x−x̄)²·Σ(y−ȳ)²)`. The means are subtracted first, so that large means cost no precision.
/// Numbers whose squares are beyond the range of f64 are divided by the largest one before.
///
/// # Shapes
/// `x` and `y`: `n` finite numbers each.
///
/// # Panics
/// The samples differ in length.
///
/// # Cost
/// `O(n)` time, no extra memory.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "samples are far below 2⁵³")]
pub fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    assert_eq!(x.len(), y.len(), "both samples have the same length");
    if is_constant(x) || is_constant(y) {
        return None;
    }
    let (x_scale, y_scale) = (scale(x), scale(y));
    let mean = |values: &[f64], scale: f64| values.iter().map(|value| value * scale).sum::<f64>() / values.len() as f64;
    let (x_mean, y_mean) = (mean(x, x_scale), mean(y, y_scale));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        let (x, y) = (x * x_scale - x_mean, y * y_scale - y_mean);
        xx += x * x;
        yy += y * y;
        xy += x * y;
    }
    // The product of two roots does not underflow as the product of the sums could. Rounding may exceed [−1, 1]
    // slightly.
    let spread = xx.sqrt() * yy.sqrt();
    (spread > 0.0).then(|| (xy / spread).clamp(-1.0, 1.0))
}

/// Factor that brings the largest of some numbers near 1 if their squares could overflow or vanish; otherwise 1.
fn scale(values: &[f64]) -> f64 {
    let largest = values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    if largest == 0.0 || (1e-100..1e100).contains(&largest) { 1.0 } else { largest.max(f64::MIN_POSITIVE).recip() }
}

/// Spearman's rho of two samples: [`pearson`] of their [`mean_ranks`]; `None` in the same cases.
///
/// # Panics
/// The samples differ in length.
///
/// # Cost
/// `O(n log n)` time, `O(n)` memory.
#[must_use]
pub fn spearman(x: &[f64], y: &[f64]) -> Option<f64> {
    pearson(&mean_ranks(x), &mean_ranks(y))
}

/// Rank of every value, from 1 for the smallest; equal values share the mean of their ranks.
///
/// # Cost
/// `O(n log n)` time, `O(n)` memory.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "samples are far below 2⁵³")]
pub fn mean_ranks(values: &[f64]) -> Vec<f64> {
    let order = ascending_order(values);
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for ties in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = before as f64 + (ties.len() + 1) as f64 / 2.0;
        for &value in ties {
            ranks[value] = rank;
        }
        before += ties.len();
    }
    ranks
}

/// Returns true if all values are equal, or there are none.
#[must_use]
pub fn is_constant(values: &[f64]) -> bool {
    values.iter().all(|value| *value == values[0])
}

/// Indices of the values in ascending order of value.
pub(super) fn ascending_order(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    // −0 and 0 must be adjacent, because they are equal; adding 0 turns −0 into 0.
    order.sort_unstable_by(|&a, &b| (values[a] + 0.0).total_cmp(&(values[b] + 0.0)).then(a.cmp(&b)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_of_three_pairs_and_ranks_of_ties() {
        let close = |got: Option<f64>, wanted: f64| assert!((got.expect("both vary") - wanted).abs() < 1e-15);
        close(pearson(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]), 1.0);
        close(pearson(&[1.0, 2.0, 3.0], &[1.0, 0.0, -1.0]), -1.0);
        // Deviations −1 0 1 and −1 1 0: 1 / (√2·√2).
        close(pearson(&[1.0, 2.0, 3.0], &[1.0, 3.0, 2.0]), 0.5);
        assert_eq!(mean_ranks(&[3.0, 1.0, 3.0, 3.0, -0.0, 0.0]), [5.0, 3.0, 5.0, 5.0, 1.5, 1.5]);
        // Squares of these numbers are beyond the range of f64.
        for factor in [1e200, 1e307, 1e-200, 1e-310] {
            let x = [1.0, 2.0, 3.0].map(|x| x * factor);
            assert!((pearson(&x, &[1.0, 3.0, 2.0]).expect("both vary") - 0.5).abs() < 1e-12, "{factor}");
        }
        // An increasing function of a sample has the same ranks.
        let x = [0.3, -2.0, 9.0, 0.1];
        close(spearman(&x, &x.map(f64::exp)), 1.0);
    }

    #[test]
    fn a_constant_sample_has_no_correlation() {
        // Because of rounding the mean of three 0.1 is not 0.1, so their computed variance is not 0.
        for constant in [&[0.1, 0.1, 0.1][..], &[5.0], &[]] {
            let other: Vec<f64> = (0..constant.len()).map(|i| [1.0, 5.0, 2.0][i]).collect();
            assert_eq!(pearson(constant, &other), None);
            assert_eq!(pearson(&other, constant), None);
            assert_eq!(spearman(constant, &other), None);
        }
    }

    #[test]
    fn large_means_and_small_variances_cost_no_precision() {
        let x: Vec<f64> = (0..1000).map(|i| 1e9 + f64::from(i % 7)).collect();
        let y: Vec<f64> = (0..1000).map(|i| 1e-100 * f64::from(i % 7)).collect();
        assert!((pearson(&x, &y).expect("both vary") - 1.0).abs() < 1e-12);
    }
}
