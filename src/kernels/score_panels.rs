//! Reductions of scores while they are in the cache: over the rows and the columns of panels with a few rows and
//! [`TILE_COLUMNS`] columns. They are log-sum-exps, moments, and comparisons with thresholds.

use crate::cpu::widest;
use crate::exp::exp;
use crate::product::TILE_COLUMNS;

// Log-sum-exp, ln Σ e^{β·s}, along the rows and the columns of panels of scores, for any β.
//
// Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018: exponentials are relative to a reference,
// one of the previous scores. If a later score is far above it, the reference is raised and the sum is rescaled. So
// nothing overflows, and a term that underflows is less than 10⁻³⁷ of the sum.

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

/// Moments of scores relative to a pivot: Σ (s − pivot) and Σ (s − pivot)² in f64. If the pivot is one of the scores,
/// or close to one, there is no cancellation (Chan, Golub and Le Veque, "Algorithms for computing the sample variance",
/// 1983).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moments {
    sum: f64,
    squares: f64,
}

impl Moments {
    /// Adds the moments of other scores with the same pivot.
    pub fn merge(&mut self, other: Self) {
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// Mean of `count` scores; NaN if there are none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2⁵³")]
    pub fn mean(self, count: usize, pivot: f32) -> f64 {
        f64::from(pivot) + self.sum / count as f64
    }

    /// Population standard deviation of `count` scores; 0 if there are none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2⁵³")]
    pub fn standard_deviation(self, count: usize) -> f64 {
        let [mean, square] = [self.sum, self.squares].map(|sum| sum / count as f64);
        (square - mean * mean).max(0.0).sqrt()
    }
}

/// Moments of each column of a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnMoments {
    /// Σ (s − pivot) of each column.
    pub sums: [f64; TILE_COLUMNS],
    /// Σ (s − pivot)² of each column.
    pub squares: [f64; TILE_COLUMNS],
}

impl ColumnMoments {
    /// Moments of no scores.
    pub const EMPTY: Self = Self { sums: [0.0; TILE_COLUMNS], squares: [0.0; TILE_COLUMNS] };

    /// Adds the moments of other scores with the same pivots.
    pub fn merge(&mut self, other: &Self) {
        self.sums.iter_mut().zip(other.sums).for_each(|(sum, other)| *sum += other);
        self.squares.iter_mut().zip(other.squares).for_each(|(sum, other)| *sum += other);
    }

    /// Moments of a column.
    #[must_use]
    pub fn column(&self, column: usize) -> Moments {
        Moments { sum: self.sums[column], squares: self.squares[column] }
    }
}

/// Adds the first `used` scores of every row to the moments of the row, relative to its pivot, and the scores of every
/// column to the moments of the column.
///
/// # Shapes
/// `row_pivots`, `rows`: one for each row of `scores`.
pub fn add_moments(
    scores: &[[f32; TILE_COLUMNS]],
    used: usize,
    row_pivots: &[f32],
    column_pivots: &[f32; TILE_COLUMNS],
    rows: &mut [Moments],
    columns: &mut ColumnMoments,
) {
    widest!(add(
        scores: &[[f32; TILE_COLUMNS]],
        used: usize,
        row_pivots: &[f32],
        column_pivots: &[f32; TILE_COLUMNS],
        rows: &mut [Moments],
        columns: &mut ColumnMoments,
    ));
}

#[inline(always)]
fn add(
    scores: &[[f32; TILE_COLUMNS]],
    used: usize,
    row_pivots: &[f32],
    column_pivots: &[f32; TILE_COLUMNS],
    rows: &mut [Moments],
    columns: &mut ColumnMoments,
) {
    /// Number of partial sums of a row.
    const LANES: usize = 8;
    for ((scores, &pivot), row) in scores.iter().zip(row_pivots).zip(rows) {
        let (mut sums, mut squares) = ([0.0; LANES], [0.0; LANES]);
        for (group, values) in scores.as_chunks::<LANES>().0.iter().enumerate() {
            for lane in 0..LANES {
                let distance = f64::from(values[lane]) - f64::from(pivot);
                let distance = if group * LANES + lane < used { distance } else { 0.0 };
                sums[lane] += distance;
                squares[lane] += distance * distance;
            }
        }
        row.merge(Moments { sum: sums.iter().sum(), squares: squares.iter().sum() });
        for c in 0..TILE_COLUMNS {
            let distance = f64::from(scores[c]) - f64::from(column_pivots[c]);
            columns.sums[c] += distance;
            columns.squares[c] += distance * distance;
        }
    }
}

/// Thresholds of a row.
///
/// A row ranks the columns by score minus the shift of the column; a column ranks the rows by score minus the shift of
/// the row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowThresholds {
    /// Shift of the row: subtracted from its scores in the rankings of columns.
    pub shift: f32,
    /// Scores of at least `top` may be among the best.
    pub top: f32,
    /// Scores from `low` to `high` are uncertain.
    pub low: f32,
    /// Scores above `high` are counted.
    pub high: f32,
}

impl RowThresholds {
    /// Thresholds that no score reaches.
    pub const NONE: Self = Self { shift: 0.0, top: f32::INFINITY, low: f32::INFINITY, high: f32::INFINITY };
}

/// Thresholds of the columns of a panel, and counts.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub struct ColumnThresholds {
    /// Shift of each column: subtracted from its scores in the rankings of rows.
    pub shifts: [f32; TILE_COLUMNS],
    /// Scores of at least `top` may be among the best.
    pub top: [f32; TILE_COLUMNS],
    /// Scores from `low` to `high` are uncertain.
    pub low: [f32; TILE_COLUMNS],
    /// Scores above `high` are counted.
    pub high: [f32; TILE_COLUMNS],
    /// Number of scores above `high`.
    pub counts: [u32; TILE_COLUMNS],
}

impl ColumnThresholds {
    /// Thresholds that no score reaches, and counts of 0.
    pub const NONE: Self = Self {
        shifts: [0.0; TILE_COLUMNS],
        top: [f32::INFINITY; TILE_COLUMNS],
        low: [f32::INFINITY; TILE_COLUMNS],
        high: [f32::INFINITY; TILE_COLUMNS],
        counts: [0; TILE_COLUMNS],
    };
}

/// Row with scores that reach a threshold; bit c stands for column c.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThresholdHit {
    /// Index of the row in the panel.
    pub row: usize,
    /// Columns that may be among the row's best, or are uncertain for the row.
    pub of_row: u32,
    /// Columns for which the row may be among the best, or is uncertain.
    pub of_column: u32,
}

/// Compares all scores of a panel with the thresholds of their row, after subtracting the shift of the column, and with
/// those of their column, after subtracting the shift of the row. Scores above `high` are added to the counts of the
/// row (`above`) and of the column; rows with scores that are uncertain or may be among the best are added to `hits`.
///
/// Scores are finite.
///
/// # Shapes
/// - `scores`, `rows`, `above`: one for each row
/// - `columns_used`: only the first scores of each row are compared
///
/// # Cost
/// A few instructions for 16 scores on a CPU with AVX-512.
pub fn find_hits(
    scores: &[[f32; TILE_COLUMNS]],
    columns_used: usize,
    rows: &[RowThresholds],
    above: &mut [u32],
    columns: &mut ColumnThresholds,
    hits: &mut Vec<ThresholdHit>,
) {
    let used = if columns_used >= TILE_COLUMNS { u32::MAX } else { (1 << columns_used) - 1 };
    #[cfg(target_arch = "x86_64")]
    if crate::cpu::has_avx512() {
        // SAFETY: the CPU has the feature.
        #[expect(unsafe_code, reason = "vector instructions that the CPU is checked to support")]
        return unsafe { avx512::find(scores, used, rows, above, columns, hits) };
    }
    portable(scores, used, rows, above, columns, hits);
}

fn portable(
    scores: &[[f32; TILE_COLUMNS]],
    used: u32,
    rows: &[RowThresholds],
    above: &mut [u32],
    columns: &mut ColumnThresholds,
    hits: &mut Vec<ThresholdHit>,
) {
    /// Bit mask of the columns for which a condition holds.
    fn bits(holds: impl Fn(usize) -> bool) -> u32 {
        (0..TILE_COLUMNS).fold(0, |bits, c| bits | u32::from(holds(c)) << c)
    }
    for (i, ((scores, row), above)) in scores.iter().zip(rows).zip(above).enumerate() {
        let by_row: [f32; TILE_COLUMNS] = std::array::from_fn(|c| scores[c] - columns.shifts[c]);
        let by_column: [f32; TILE_COLUMNS] = std::array::from_fn(|c| scores[c] - row.shift);
        // Without branches, so that the compiler can vectorise; most rows have no hit.
        let any = (0..TILE_COLUMNS).fold(0, |any, c| {
            let reached = [by_row[c] >= row.top, by_row[c] >= row.low];
            let of_column = [by_column[c] >= columns.top[c], by_column[c] >= columns.low[c]];
            any | reached.into_iter().chain(of_column).fold(0, |any, reached| any | u32::from(reached))
        });
        if any == 0 {
            continue;
        }
        let high = bits(|c| by_row[c] > row.high) & used;
        *above += high.count_ones();
        let of_row = bits(|c| by_row[c] >= row.low) & !high | bits(|c| by_row[c] >= row.top);
        let high = bits(|c| by_column[c] > columns.high[c]) & used;
        (0..TILE_COLUMNS).for_each(|c| columns.counts[c] += high >> c & 1);
        let of_column = bits(|c| by_column[c] >= columns.low[c]) & !high | bits(|c| by_column[c] >= columns.top[c]);
        if (of_row | of_column) & used != 0 {
            hits.push(ThresholdHit { row: i, of_row: of_row & used, of_column: of_column & used });
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "vector instructions that the CPU is checked to support")]
mod avx512 {
    use std::arch::x86_64::{
        __m512, _CMP_GE_OQ, _CMP_GT_OQ, _mm512_loadu_epi32, _mm512_loadu_ps, _mm512_mask_add_epi32, _mm512_set1_epi32,
        _mm512_set1_ps, _mm512_storeu_epi32, _mm512_sub_ps,
    };

    use super::{ColumnThresholds, RowThresholds, TILE_COLUMNS, ThresholdHit};
    use crate::vector_instructions::_mm512_cmp_ps_mask;

    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn find(
        scores: &[[f32; TILE_COLUMNS]],
        used: u32,
        rows: &[RowThresholds],
        above: &mut [u32],
        columns: &mut ColumnThresholds,
        hits: &mut Vec<ThresholdHit>,
    ) {
        let one = _mm512_set1_epi32(1);
        let [minus, top, low, high] =
            [&columns.shifts, &columns.top, &columns.low, &columns.high].map(|values| halves(values));
        let used_halves = [low16(used), low16(used >> 16)];
        let mut counts = [
            // SAFETY: there are 32 counts.
            unsafe { _mm512_loadu_epi32(columns.counts.as_ptr().cast()) },
            // SAFETY: as above.
            unsafe { _mm512_loadu_epi32(columns.counts[16..].as_ptr().cast()) },
        ];
        for (i, ((scores, row), above)) in scores.iter().zip(rows).zip(above).enumerate() {
            let scores = halves(scores);
            let [row_minus, row_top, row_low, row_high] =
                [row.shift, row.top, row.low, row.high].map(|x| _mm512_set1_ps(x));
            let (mut of_row, mut of_column) = (0, 0);
            for half in 0..2 {
                let by_row = _mm512_sub_ps(scores[half], minus[half]);
                let by_column = _mm512_sub_ps(scores[half], row_minus);
                let over = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(by_row, row_high) & used_halves[half];
                let reached = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(by_row, row_low) & !over
                    | _mm512_cmp_ps_mask::<_CMP_GE_OQ>(by_row, row_top);
                *above += over.count_ones();
                of_row |= u32::from(reached) << (16 * half);
                let over = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(by_column, high[half]) & used_halves[half];
                let reached = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(by_column, low[half]) & !over
                    | _mm512_cmp_ps_mask::<_CMP_GE_OQ>(by_column, top[half]);
                counts[half] = _mm512_mask_add_epi32(counts[half], over, counts[half], one);
                of_column |= u32::from(reached) << (16 * half);
            }
            if (of_row | of_column) & used != 0 {
                hits.push(ThresholdHit { row: i, of_row: of_row & used, of_column: of_column & used });
            }
        }
        // SAFETY: there are 32 counts.
        unsafe { _mm512_storeu_epi32(columns.counts.as_mut_ptr().cast(), counts[0]) };
        // SAFETY: as above.
        unsafe { _mm512_storeu_epi32(columns.counts[16..].as_mut_ptr().cast(), counts[1]) };
    }

    /// Lower half of the bits.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "only the lower half is used")]
    fn low16(bits: u32) -> u16 {
        bits as u16
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn halves(values: &[f32; TILE_COLUMNS]) -> [__m512; 2] {
        // SAFETY: there are 32 values.
        [unsafe { _mm512_loadu_ps(values.as_ptr()) }, unsafe { _mm512_loadu_ps(values[16..].as_ptr()) }]
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
                let close = |got: f64, expected: f64| {
                    let error = (got - expected).abs();
                    assert!(error < 2e-6 + 1e-7 * f64::from(beta), "β {beta}, {n}x{used}: {got}, expected {expected}");
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

    #[test]
    fn mean_and_deviation_of_a_row_and_of_columns() {
        // Eight numbers with mean 5 and standard deviation 2.
        let numbers = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        let mut row = [100.0; TILE_COLUMNS];
        row[..8].copy_from_slice(&numbers);
        let (mut rows, mut columns) = ([Moments::default()], ColumnMoments::EMPTY);
        add_moments(&[row], 8, &[2.0], &[0.0; TILE_COLUMNS], &mut rows, &mut columns);
        assert_eq!((rows[0].mean(8, 2.0), rows[0].standard_deviation(8)), (5.0, 2.0));

        let (mut rows, mut columns) = ([Moments::default(); 8], ColumnMoments::EMPTY);
        add_moments(
            &numbers.map(|x| [x; TILE_COLUMNS]),
            TILE_COLUMNS,
            &[0.0; 8],
            &[2.0; TILE_COLUMNS],
            &mut rows,
            &mut columns,
        );
        let mut column = columns.column(31);
        assert_eq!((column.mean(8, 2.0), column.standard_deviation(8)), (5.0, 2.0));
        column.merge(columns.column(0));
        assert_eq!((column.mean(16, 2.0), column.standard_deviation(16)), (5.0, 2.0));
        assert_eq!((rows[7].mean(32, 0.0), rows[7].standard_deviation(32)), (9.0, 0.0));
        assert!(Moments::default().mean(0, 1.0).is_nan());
    }

    /// Compares the portable and the vectorised version with a scalar reference.
    #[test]
    #[expect(clippy::cast_precision_loss, reason = "test values are small")]
    fn hits_and_counts_equal_those_of_a_scalar_reference() {
        let mut rng = Rng::new(5, &[]);
        const CASES: usize = if cfg!(miri) { 6 } else { 400 };
        for case in 0..CASES {
            let mut value = || rng.uniform_below(9) as f32 / 4.0 - 1.0;
            let n = 1 + case % 14;
            let used = [TILE_COLUMNS, 1, 15, 16, 17, 31][case % 6];
            let scores: Vec<[f32; TILE_COLUMNS]> = (0..n).map(|_| std::array::from_fn(|_| value())).collect();
            let mut threshold = || {
                let low = value();
                [value() / 4.0, value() + 0.5, low, low + 0.25]
            };
            let rows: Vec<RowThresholds> = (0..n)
                .map(|i| {
                    let [minus, top, low, high] = threshold();
                    if i % 3 == 2 { RowThresholds::NONE } else { RowThresholds { shift: minus, top, low, high } }
                })
                .collect();
            let mut columns = ColumnThresholds::NONE;
            for c in 0..TILE_COLUMNS {
                [columns.shifts[c], columns.top[c], columns.low[c], columns.high[c]] = threshold();
                columns.counts[c] = u32::try_from(c).expect("a small number");
            }

            let (mut above, mut above_columns, mut hits) = (vec![7; n], columns.counts, Vec::new());
            for (i, row) in rows.iter().enumerate() {
                let (mut of_row, mut of_column) = (0, 0);
                for c in 0..used {
                    let (by_row, by_column) = (scores[i][c] - columns.shifts[c], scores[i][c] - row.shift);
                    above[i] += u32::from(by_row > row.high);
                    above_columns[c] += u32::from(by_column > columns.high[c]);
                    let is_uncertain = |score: f32, low: f32, high: f32| score >= low && score <= high;
                    of_row |= u32::from(is_uncertain(by_row, row.low, row.high) || by_row >= row.top) << c;
                    let found = is_uncertain(by_column, columns.low[c], columns.high[c]) || by_column >= columns.top[c];
                    of_column |= u32::from(found) << c;
                }
                if of_row | of_column != 0 {
                    hits.push(ThresholdHit { row: i, of_row, of_column });
                }
            }
            let mask = if used == TILE_COLUMNS { u32::MAX } else { (1 << used) - 1 };
            for plain in [true, false] {
                let (mut got_above, mut got_columns, mut got_hits) = (vec![7; n], columns.clone(), Vec::new());
                if plain {
                    portable(&scores, mask, &rows, &mut got_above, &mut got_columns, &mut got_hits);
                } else {
                    find_hits(&scores, used, &rows, &mut got_above, &mut got_columns, &mut got_hits);
                }
                assert_eq!((&got_above, &got_columns.counts, &got_hits), (&above, &above_columns, &hits), "{case}");
            }
        }
    }
}
