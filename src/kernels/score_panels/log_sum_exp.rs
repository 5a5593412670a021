//! Log-sum-exp, ln Σ e^{β·s}, along the rows and the columns of panels of scores, for any β.
//!
//! Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018: exponentials are relative to a reference,
//! one of the previous scores. If a later score is far above it, the reference is raised and the sum is rescaled. So
//! nothing overflows, and a term that underflows is less than 10⁻³⁷ of the sum.

use crate::cpu::widest;
use crate::exp::exp;
use crate::product::TILE_COLUMNS;

/// Number of partial sums of a row.
const LANES: usize = 8;
/// Largest argument of an exponential, β·(s − reference), before the reference is raised. The rounding error of an
/// argument is relative to its size, so the arguments of large terms must be small.
const MAX_EXPONENT: f32 = 8.0;

/// Running log-sum-exp of the scores of a row: Σ e^{β·(s − reference)} in f64.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunningLogSumExp {
    reference: f32,
    lanes: [f64; LANES],
}

impl RunningLogSumExp {
    /// Log-sum-exp of no scores.
    pub const EMPTY: Self = Self { reference: f32::NEG_INFINITY, lanes: [0.0; LANES] };

    /// ln Σ e^{β·s}; −∞ for no scores. The error is about 10⁻⁶ for any number of scores, from the exponential in f32
    /// and its argument, which is small for large terms.
    #[must_use]
    pub fn value(&self, beta: f64) -> f64 {
        value(beta, self.reference, self.lanes.iter().sum())
    }

    /// Raises the reference and rescales the sum.
    fn raise_reference(&mut self, reference: f32, beta: f32) {
        if self.reference != reference {
            let factor = f64::from(exp(beta * (self.reference - reference)));
            self.lanes.iter_mut().for_each(|sum| *sum *= factor);
            self.reference = reference;
        }
    }
}

/// Adds the scores of every row, each plus the offset of its column, to the row's sum. An offset of −∞ excludes a
/// column.
///
/// # Shapes
/// `sums`: one for each row of `scores`.
pub fn add_exp_rows(
    beta: f32,
    scores: &[[f32; TILE_COLUMNS]],
    offsets: &[f32; TILE_COLUMNS],
    sums: &mut [RunningLogSumExp],
) {
    widest!(rows(beta: f32, scores: &[[f32; TILE_COLUMNS]], offsets: &[f32; TILE_COLUMNS], sums: &mut [RunningLogSumExp]));
}

/// Adds the scores of every column, each plus the offset of its row, to the column's sum.
///
/// # Shapes
/// - `offsets`: one for each row of `scores`
pub fn add_exp_columns(beta: f32, scores: &[[f32; TILE_COLUMNS]], offsets: &[f32], sums: &mut ColumnLogSumExps) {
    widest!(columns(beta: f32, scores: &[[f32; TILE_COLUMNS]], offsets: &[f32], sums: &mut ColumnLogSumExps));
}

/// Running log-sum-exp of each column of a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnLogSumExps {
    /// Reference of each column.
    pub references: [f32; TILE_COLUMNS],
    /// Σ e^{β·(s − reference)} of each column.
    pub sums: [f64; TILE_COLUMNS],
}

impl ColumnLogSumExps {
    /// Log-sum-exp of no scores.
    pub const EMPTY: Self = Self { references: [f32::NEG_INFINITY; TILE_COLUMNS], sums: [0.0; TILE_COLUMNS] };

    /// ln Σ e^{β·s} of a column, as [`RunningLogSumExp::value`].
    #[must_use]
    pub fn value(&self, column: usize, beta: f64) -> f64 {
        value(beta, self.references[column], self.sums[column])
    }

    /// Adds the sums of other scores, which come after these.
    pub fn merge(&mut self, other: &Self, beta: f32) {
        for c in 0..TILE_COLUMNS {
            let (one, two) = (self.references[c], other.references[c]);
            let highest = if two > one { two } else { one };
            let moved = |sum: f64, from: f32| {
                if from == highest { sum } else { sum * f64::from(exp(beta * (from - highest))) }
            };
            self.sums[c] = moved(self.sums[c], one) + moved(other.sums[c], two);
            self.references[c] = highest;
        }
    }
}

fn value(beta: f64, reference: f32, sum: f64) -> f64 {
    if sum > 0.0 { beta * f64::from(reference) + sum.ln() } else { f64::NEG_INFINITY }
}

/// Returns true if an argument of the exponential requires a higher reference. This includes NaN, which occurs if there
/// is no reference yet and β is 0.
#[inline(always)]
#[expect(clippy::inline_always, reason = "it is compiled for several kinds of CPUs")]
fn is_far(argument: f32) -> bool {
    argument > MAX_EXPONENT || argument.is_nan()
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it is compiled for several kinds of CPUs")]
fn rows(beta: f32, scores: &[[f32; TILE_COLUMNS]], offsets: &[f32; TILE_COLUMNS], sums: &mut [RunningLogSumExp]) {
    for (scores, sum) in scores.iter().zip(sums) {
        let mut terms = [0.0; TILE_COLUMNS];
        for c in 0..TILE_COLUMNS {
            terms[c] = scores[c] + offsets[c];
        }
        let mut largest = [f32::NEG_INFINITY; 16];
        for half in terms.as_chunks::<16>().0 {
            for (largest, &term) in largest.iter_mut().zip(half) {
                *largest = if term > *largest { term } else { *largest };
            }
        }
        let largest = largest.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
        if largest > sum.reference && is_far(beta * (largest - sum.reference)) {
            sum.raise_reference(largest, beta);
        }
        for term in &mut terms {
            *term = exp(beta * (*term - sum.reference));
        }
        for terms in terms.as_chunks::<LANES>().0 {
            for (sum, &term) in sum.lanes.iter_mut().zip(terms) {
                *sum += f64::from(term);
            }
        }
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it is compiled for several kinds of CPUs")]
fn columns(beta: f32, scores: &[[f32; TILE_COLUMNS]], offsets: &[f32], sums: &mut ColumnLogSumExps) {
    for (scores, &offset) in scores.iter().zip(offsets) {
        let mut terms = [0.0; TILE_COLUMNS];
        let mut far = 0;
        for c in 0..TILE_COLUMNS {
            terms[c] = beta * (scores[c] + offset - sums.references[c]);
            far |= u32::from(is_far(terms[c]));
        }
        if far != 0 {
            for c in 0..TILE_COLUMNS {
                let score = scores[c] + offset;
                if is_far(terms[c]) && score > sums.references[c] {
                    sums.sums[c] *= f64::from(exp(beta * (sums.references[c] - score)));
                    sums.references[c] = score;
                    terms[c] = 0.0;
                }
            }
        }
        for (sum, term) in sums.sums.iter_mut().zip(terms) {
            *sum += f64::from(exp(term));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    /// The definition in f64.
    fn plain(beta: f32, scores: impl Iterator<Item = f32> + Clone) -> f64 {
        let largest = scores.clone().map(f64::from).fold(f64::NEG_INFINITY, f64::max);
        let beta = f64::from(beta);
        beta * largest + scores.map(|score| (beta * (f64::from(score) - largest)).exp()).sum::<f64>().ln()
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    fn sums_are_those_of_the_definition_for_any_beta() {
        const SIZES: &[(usize, usize)] = if cfg!(miri) { &[(2, 3)] } else { &[(1, 1), (7, 20), (90, TILE_COLUMNS)] };
        let mut rng = Rng::new(6, &[]);
        for beta in [0.0, 1.0, 30.0, 1e4] {
            for &(n, used) in SIZES {
                let scores: Vec<[f32; TILE_COLUMNS]> =
                    (0..n).map(|_| std::array::from_fn(|_| 2.0 * rng.uniform() as f32 - 1.0)).collect();
                let by_column: [f32; TILE_COLUMNS] =
                    std::array::from_fn(|c| if c < used { rng.uniform() as f32 } else { f32::NEG_INFINITY });
                let by_row: Vec<f32> = (0..n).map(|_| rng.uniform() as f32).collect();
                let mut rows_sums = vec![RunningLogSumExp::EMPTY; n];
                add_exp_rows(beta, &scores, &by_column, &mut rows_sums);
                add_exp_rows(beta, &scores, &by_column, &mut rows_sums);
                let mut column_sums = ColumnLogSumExps::EMPTY;
                add_exp_columns(beta, &scores, &by_row, &mut column_sums);
                let close = |got: f64, wanted: f64| {
                    let error = (got - wanted).abs();
                    assert!(error < 2e-6 + 1e-7 * f64::from(beta), "β {beta}, {n}x{used}: {got}, wanted {wanted}");
                };
                for i in 0..n {
                    let row = (0..used).map(|c| scores[i][c] + by_column[c]);
                    close(rows_sums[i].value(f64::from(beta)), plain(beta, row.clone().chain(row)));
                }
                for c in 0..used {
                    let column = (0..n).map(|i| scores[i][c] + by_row[i]);
                    close(column_sums.value(c, f64::from(beta)), plain(beta, column.clone()));
                    // The same sum in two parts, merged.
                    let cut = n / 2;
                    let mut parts = [ColumnLogSumExps::EMPTY, ColumnLogSumExps::EMPTY];
                    add_exp_columns(beta, &scores[..cut], &by_row[..cut], &mut parts[0]);
                    add_exp_columns(beta, &scores[cut..], &by_row[cut..], &mut parts[1]);
                    let [mut both, second] = parts;
                    both.merge(&second, beta);
                    close(both.value(c, f64::from(beta)), plain(beta, column));
                }
            }
        }
        assert_eq!(RunningLogSumExp::EMPTY.value(1.0), f64::NEG_INFINITY);
        let mut empty = ColumnLogSumExps::EMPTY;
        empty.merge(&ColumnLogSumExps::EMPTY, 1.0);
        assert_eq!(empty, ColumnLogSumExps::EMPTY);
    }

    /// All versions of the code for different CPUs give the same bits.
    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    fn bits_do_not_depend_on_the_instructions() {
        const N: usize = if cfg!(miri) { 3 } else { 50 };
        let mut rng = Rng::new(7, &[]);
        let scores: Vec<[f32; TILE_COLUMNS]> = (0..N).map(|_| std::array::from_fn(|_| rng.uniform() as f32)).collect();
        let (mut a, mut b) = (vec![RunningLogSumExp::EMPTY; N], vec![RunningLogSumExp::EMPTY; N]);
        add_exp_rows(90.0, &scores, &[0.25; TILE_COLUMNS], &mut a);
        rows(90.0, &scores, &[0.25; TILE_COLUMNS], &mut b);
        assert_eq!(a, b);
        let (mut a, mut b) = (ColumnLogSumExps::EMPTY, ColumnLogSumExps::EMPTY);
        add_exp_columns(90.0, &scores, &[0.25; N], &mut a);
        columns(90.0, &scores, &[0.25; N], &mut b);
        assert_eq!(a, b);
    }
}
