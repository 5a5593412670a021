//! Which scores of a panel reach the thresholds of their row or of their column.

use crate::product::COLUMNS;

/// What a row asks of its scores, and what its scores lose where columns rank rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Subtracted from the row's scores before a column looks at them.
    pub minus: f32,
    /// Scores from here on may be among the best.
    pub top: f32,
    /// Scores from `low` to `high` are in doubt.
    pub low: f32,
    /// Scores above this are counted.
    pub high: f32,
}

impl Row {
    /// Asks for nothing.
    pub const NONE: Self = Self { minus: 0.0, top: f32::INFINITY, low: f32::INFINITY, high: f32::INFINITY };
}

/// The same of the columns of a panel.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub struct Columns {
    /// Subtracted from the column's scores before a row looks at them.
    pub minus: [f32; COLUMNS],
    /// Scores from here on may be among the best.
    pub top: [f32; COLUMNS],
    /// Scores from `low` to `high` are in doubt.
    pub low: [f32; COLUMNS],
    /// Scores above this are counted.
    pub high: [f32; COLUMNS],
    /// How many were.
    pub above: [u32; COLUMNS],
}

impl Columns {
    /// Ask for nothing.
    pub const NONE: Self = Self {
        minus: [0.0; COLUMNS],
        top: [f32::INFINITY; COLUMNS],
        low: [f32::INFINITY; COLUMNS],
        high: [f32::INFINITY; COLUMNS],
        above: [0; COLUMNS],
    };
}

/// A row in which something was found; bit c stands for column c.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// The row of the panel.
    pub row: usize,
    /// Columns that may be among the row's best, or are in doubt.
    pub of_row: u32,
    /// Columns among whose best the row may be, or which doubt it.
    pub of_column: u32,
}

/// Compares all scores of a panel with the thresholds of their row, less the column's `minus`, and with those of their column,
/// less the row's `minus`; adds to the counts of `rows` and `columns`, and rows with anything else to `hits`.
///
/// Scores are finite.
///
/// # Shapes
/// - `scores`, `rows`, `above`: one for each row; `above` counts
/// - of each row the first `columns_used` scores count
///
/// # Cost
/// A few instructions for 16 scores where the processor has such vectors.
pub fn find(
    scores: &[[f32; COLUMNS]],
    columns_used: usize,
    rows: &[Row],
    above: &mut [u32],
    columns: &mut Columns,
    hits: &mut Vec<Hit>,
) {
    let used = if columns_used >= COLUMNS { u32::MAX } else { (1 << columns_used) - 1 };
    #[cfg(target_arch = "x86_64")]
    if crate::cpu::has_avx512() {
        // SAFETY: the processor has the feature.
        #[expect(unsafe_code, reason = "vector instructions of the processor, which was asked whether it has them")]
        return unsafe { avx512::find(scores, used, rows, above, columns, hits) };
    }
    portable(scores, used, rows, above, columns, hits);
}

fn portable(
    scores: &[[f32; COLUMNS]],
    used: u32,
    rows: &[Row],
    above: &mut [u32],
    columns: &mut Columns,
    hits: &mut Vec<Hit>,
) {
    /// Bit c says whether condition c holds.
    fn bits(holds: impl Fn(usize) -> bool) -> u32 {
        (0..COLUMNS).fold(0, |bits, c| bits | u32::from(holds(c)) << c)
    }
    for (i, ((scores, row), above)) in scores.iter().zip(rows).zip(above).enumerate() {
        let by_row: [f32; COLUMNS] = std::array::from_fn(|c| scores[c] - columns.minus[c]);
        let by_column: [f32; COLUMNS] = std::array::from_fn(|c| scores[c] - row.minus);
        // Without branches, so that the compiler may use vector instructions; mostly there is nothing.
        let any = (0..COLUMNS).fold(0, |any, c| {
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
        (0..COLUMNS).for_each(|c| columns.above[c] += high >> c & 1);
        let of_column = bits(|c| by_column[c] >= columns.low[c]) & !high | bits(|c| by_column[c] >= columns.top[c]);
        if (of_row | of_column) & used != 0 {
            hits.push(Hit { row: i, of_row: of_row & used, of_column: of_column & used });
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "vector instructions of the processor, which was asked whether it has them")]
mod avx512 {
    use std::arch::x86_64::{
        __m512, _CMP_GE_OQ, _CMP_GT_OQ, _mm512_cmp_ps_mask, _mm512_loadu_epi32, _mm512_loadu_ps, _mm512_mask_add_epi32,
        _mm512_set1_epi32, _mm512_set1_ps, _mm512_storeu_epi32, _mm512_sub_ps,
    };

    use super::{COLUMNS, Columns, Hit, Row};

    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn find(
        scores: &[[f32; COLUMNS]],
        used: u32,
        rows: &[Row],
        above: &mut [u32],
        columns: &mut Columns,
        hits: &mut Vec<Hit>,
    ) {
        let one = _mm512_set1_epi32(1);
        let [minus, top, low, high] =
            [&columns.minus, &columns.top, &columns.low, &columns.high].map(|values| halves(values));
        let used_halves = [low16(used), low16(used >> 16)];
        let mut counts = [
            // SAFETY: there are 32 counts.
            unsafe { _mm512_loadu_epi32(columns.above.as_ptr().cast()) },
            // SAFETY: as above.
            unsafe { _mm512_loadu_epi32(columns.above[16..].as_ptr().cast()) },
        ];
        for (i, ((scores, row), above)) in scores.iter().zip(rows).zip(above).enumerate() {
            let scores = halves(scores);
            let [row_minus, row_top, row_low, row_high] =
                [row.minus, row.top, row.low, row.high].map(|x| _mm512_set1_ps(x));
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
                hits.push(Hit { row: i, of_row: of_row & used, of_column: of_column & used });
            }
        }
        // SAFETY: there are 32 counts.
        unsafe { _mm512_storeu_epi32(columns.above.as_mut_ptr().cast(), counts[0]) };
        // SAFETY: as above.
        unsafe { _mm512_storeu_epi32(columns.above[16..].as_mut_ptr().cast(), counts[1]) };
    }

    /// The lower half of the bits.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is what is asked for")]
    fn low16(bits: u32) -> u16 {
        bits as u16
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn halves(values: &[f32; COLUMNS]) -> [__m512; 2] {
        // SAFETY: there are 32 values.
        [unsafe { _mm512_loadu_ps(values.as_ptr()) }, unsafe { _mm512_loadu_ps(values[16..].as_ptr()) }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    /// Both ways to compute it against one score after the other.
    #[test]
    #[expect(clippy::cast_precision_loss, reason = "test values are small")]
    fn finds_what_one_score_after_the_other_finds() {
        let mut sample = Sample::new(5, &[]);
        for case in 0..400 {
            let mut value = || sample.below(9) as f32 / 4.0 - 1.0;
            let n = 1 + case % 14;
            let used = [COLUMNS, 1, 15, 16, 17, 31][case % 6];
            let scores: Vec<[f32; COLUMNS]> = (0..n).map(|_| std::array::from_fn(|_| value())).collect();
            let mut threshold = || {
                let low = value();
                [value() / 4.0, value() + 0.5, low, low + 0.25]
            };
            let rows: Vec<Row> = (0..n)
                .map(|i| {
                    let [minus, top, low, high] = threshold();
                    if i % 3 == 2 { Row::NONE } else { Row { minus, top, low, high } }
                })
                .collect();
            let mut columns = Columns::NONE;
            for c in 0..COLUMNS {
                [columns.minus[c], columns.top[c], columns.low[c], columns.high[c]] = threshold();
                columns.above[c] = u32::try_from(c).expect("a small number");
            }

            let (mut above, mut above_columns, mut hits) = (vec![7; n], columns.above, Vec::new());
            for (i, row) in rows.iter().enumerate() {
                let (mut of_row, mut of_column) = (0, 0);
                for c in 0..used {
                    let (by_row, by_column) = (scores[i][c] - columns.minus[c], scores[i][c] - row.minus);
                    above[i] += u32::from(by_row > row.high);
                    above_columns[c] += u32::from(by_column > columns.high[c]);
                    let doubt = |score: f32, low: f32, high: f32| score >= low && score <= high;
                    of_row |= u32::from(doubt(by_row, row.low, row.high) || by_row >= row.top) << c;
                    let found = doubt(by_column, columns.low[c], columns.high[c]) || by_column >= columns.top[c];
                    of_column |= u32::from(found) << c;
                }
                if of_row | of_column != 0 {
                    hits.push(Hit { row: i, of_row, of_column });
                }
            }
            let mask = if used == COLUMNS { u32::MAX } else { (1 << used) - 1 };
            for plain in [true, false] {
                let (mut got_above, mut got_columns, mut got_hits) = (vec![7; n], columns.clone(), Vec::new());
                if plain {
                    portable(&scores, mask, &rows, &mut got_above, &mut got_columns, &mut got_hits);
                } else {
                    find(&scores, used, &rows, &mut got_above, &mut got_columns, &mut got_hits);
                }
                assert_eq!((&got_above, &got_columns.above, &got_hits), (&above, &above_columns, &hits), "{case}");
            }
        }
    }
}
