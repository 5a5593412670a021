//! First and second moments of scores along the rows and the columns of panels, for means and standard deviations.

use crate::cpu::widest;
use crate::product::TILE_COLUMNS;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
