//! Kendall's tau-b and tau-c in `O(n log n)`.
//!
//! Knight, "A computer method for calculating Kendall's tau with ungrouped data", JASA 61, 1966, which counts
//! discordant pairs while it merges; tau-b is Kendall, "The treatment of ties in ranking problems", 1945, tau-c Stuart,
//! "The estimation and comparison of strengths of association in contingency tables", 1953.

use super::correlation::ascending_order;

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
fn pair_count<T>(of: &[T]) -> u64 {
    let n = of.len() as u64;
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
                (Some(got), Some(wanted)) => {
                    assert!((got.tau_b - wanted.tau_b).abs() < 1e-14, "case {case}: {got:?} {wanted:?}");
                    assert!((got.tau_c - wanted.tau_c).abs() < 1e-14, "case {case}: {got:?} {wanted:?}");
                }
                (got, wanted) => assert_eq!(got, wanted, "case {case}"),
            }
        }
    }
}
