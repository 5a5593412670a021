//! Comparison of the scores of a panel with thresholds of rows and of columns.

use crate::product::TILE_COLUMNS;

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
