//! Correlation coefficients: Pearson's, Spearman's, and Kendall's tau.
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

// Kendall's tau-b and tau-c in `O(n log n)`.
//
// Knight, "A computer method for calculating Kendall's tau with ungrouped data", JASA 61, 1966, which counts
// discordant pairs while it merges; tau-b is Kendall, "The treatment of ties in ranking problems", 1945, tau-c Stuart,
// "The estimation and comparison of strengths of association in contingency tables", 1953.

/// Kendall's two coefficients for samples with ties.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kendall {
    /// `(C − D) / √((P − Tx)(P − Ty))`, with concordant pairs `C`, discordant pairs `D`, all pairs `P` and the pairs
    /// that are tied in x (`Tx`) and in y (`Ty`).
    pub tau_b: f64,
    /// `2·(C − D) / (n²·(q − 1)/q)`, with `q` the smaller number of distinct values.
    pub tau_c: f64,
}

/// Computes tau-b and tau-c of two samples; `None` if either is constant, or has fewer than two values.
///
/// # Shapes
/// `x` and `y`: `n` finite numbers each.
///
/// # Panics
/// The samples differ in length.
///
/// # Cost
/// `O(n log n)` time, `O(n)` memory.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "pairs of 10⁸ values are still below 2⁵³")]
pub fn kendall(x: &[f64], y: &[f64]) -> Option<Kendall> {
    assert_eq!(x.len(), y.len(), "both samples have the same length");
    let ((x, x_distinct), (y, y_distinct)) = (dense_ranks(x), dense_ranks(y));
    let distinct = x_distinct.min(y_distinct);
    if distinct < 2 {
        return None;
    }
    let mut points: Vec<(usize, usize)> = x.into_iter().zip(y).collect();
    points.sort_unstable();
    let x_tied: u64 = points.chunk_by(|a, b| a.0 == b.0).map(pair_count).sum();
    let both_tied: u64 = points.chunk_by(|a, b| a == b).map(pair_count).sum();
    // Points are sorted by x, ties by y. So a pair is discordant exactly if it is an inversion of y.
    let mut y: Vec<usize> = points.iter().map(|point| point.1).collect();
    let discordant = sort_counting_inversions(&mut y, &mut vec![0; points.len()]);
    let y_tied: u64 = y.chunk_by(|a, b| a == b).map(pair_count).sum();

    let all = pair_count(&points);
    let concordant = all + both_tied - x_tied - y_tied - discordant;
    let difference = concordant as f64 - discordant as f64;
    let (n, q) = (points.len() as f64, distinct as f64);
    let tau_b = difference / ((all - x_tied) as f64).sqrt() / ((all - y_tied) as f64).sqrt();
    let tau_c = 2.0 * difference / (n * n * (q - 1.0) / q);
    Some(Kendall { tau_b: tau_b.clamp(-1.0, 1.0), tau_c: tau_c.clamp(-1.0, 1.0) })
}

/// Number of pairs of different elements.
fn pair_count<T>(items: &[T]) -> u64 {
    let n = items.len() as u64;
    n * n.saturating_sub(1) / 2
}

/// Dense rank of every value, from 0, and the number of distinct values.
fn dense_ranks(values: &[f64]) -> (Vec<usize>, usize) {
    let mut ranks = vec![0; values.len()];
    let order = ascending_order(values);
    let mut distinct = 0;
    for ties in order.chunk_by(|&a, &b| values[a] == values[b]) {
        for &value in ties {
            ranks[value] = distinct;
        }
        distinct += 1;
    }
    (ranks, distinct)
}

/// Sorts `values` by merging and returns the number of inversions. `buffer` has the length of `values`.
fn sort_counting_inversions(values: &mut [usize], buffer: &mut [usize]) -> u64 {
    let middle = values.len() / 2;
    if middle == 0 {
        return 0;
    }
    let (left, right) = values.split_at_mut(middle);
    let (left_buffer, right_buffer) = buffer.split_at_mut(middle);
    let mut inversions = sort_counting_inversions(left, left_buffer) + sort_counting_inversions(right, right_buffer);
    let (mut i, mut j) = (0, 0);
    for place in buffer.iter_mut() {
        let from_left = j == right.len() || (i < left.len() && left[i] <= right[j]);
        if from_left {
            *place = left[i];
            i += 1;
        } else {
            // It precedes all remaining values of the left half.
            inversions += (left.len() - i) as u64;
            *place = right[j];
            j += 1;
        }
    }
    values.copy_from_slice(buffer);
    inversions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    #[test]
    fn coefficients_of_three_pairs_and_ranks_of_ties() {
        let close = |got: Option<f64>, expected: f64| assert!((got.expect("both vary") - expected).abs() < 1e-15);
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

    /// The definition, over all pairs.
    #[expect(clippy::cast_precision_loss, reason = "test values are small")]
    fn reference(x: &[f64], y: &[f64]) -> Option<Kendall> {
        let (mut difference, mut x_apart, mut y_apart) = (0i64, 0u32, 0u32);
        for i in 0..x.len() {
            for j in 0..i {
                let (dx, dy) = (x[i] - x[j], y[i] - y[j]);
                x_apart += u32::from(dx != 0.0);
                y_apart += u32::from(dy != 0.0);
                difference += i64::from(dx * dy > 0.0) - i64::from(dx * dy < 0.0);
            }
        }
        let distinct = |values: &[f64]| {
            let mut values = values.to_vec();
            values.sort_by(f64::total_cmp);
            values.dedup();
            values.len()
        };
        let (n, q) = (x.len() as f64, distinct(x).min(distinct(y)) as f64);
        (x_apart > 0 && y_apart > 0).then(|| Kendall {
            tau_b: difference as f64 / (f64::from(x_apart) * f64::from(y_apart)).sqrt(),
            tau_c: 2.0 * difference as f64 / (n * n * (q - 1.0) / q),
        })
    }

    #[test]
    fn concordant_discordant_and_constant_pairs() {
        let one = kendall(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]).expect("both vary");
        // Three pairs, all concordant; tau-c: 2·3 / (9·2/3) = 1.
        assert!((one.tau_b - 1.0).abs() < 1e-15 && (one.tau_c - 1.0).abs() < 1e-15);
        // Pairs: (1,2) tied in x, (1,3) and (2,3) concordant and discordant: C − D = 0.
        let none = kendall(&[0.0, 0.0, 1.0], &[0.0, 2.0, 1.0]).expect("both vary");
        assert_eq!((none.tau_b, none.tau_c), (0.0, 0.0));
        assert_eq!(kendall(&[], &[]), None);
        assert_eq!(kendall(&[1.0], &[1.0]), None);
        assert_eq!(kendall(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(kendall(&[0.0, -0.0], &[1.0, 2.0]), None);
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "test values are small")]
    fn coefficients_equal_the_definition_over_all_pairs() {
        let mut rng = Rng::new(5, &[]);
        for case in 0..300 {
            let n = rng.uniform_below(60);
            let mut draw = |kinds| (0..n).map(|_| rng.uniform_below(kinds) as f64 / 4.0).collect::<Vec<f64>>();
            let (x, y) = (draw(1 + case % 9), draw(40));
            match (kendall(&x, &y), reference(&x, &y)) {
                (Some(got), Some(expected)) => {
                    assert!((got.tau_b - expected.tau_b).abs() < 1e-14, "case {case}: {got:?} {expected:?}");
                    assert!((got.tau_c - expected.tau_c).abs() < 1e-14, "case {case}: {got:?} {expected:?}");
                }
                (got, expected) => assert_eq!(got, expected, "case {case}"),
            }
        }
    }
}
