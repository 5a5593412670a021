//! Sums of scores and of their squares along the rows and the columns of panels, for means and standard deviations.

use crate::cpu::widest;
use crate::product::COLUMNS;

/// Σ (s − shift) and Σ (s − shift)² of the scores so far, in f64. With a shift that is one of the scores, or close to one,
/// nothing cancels (Chan, Golub and Le Veque, "Algorithms for computing the sample variance", 1983).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moments {
    sum: f64,
    squares: f64,
}

impl Moments {
    /// Adds what another one has seen, of the same shift.
    pub fn merge(&mut self, other: Self) {
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// The mean of `count` scores; of none, not a number.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2⁵³")]
    pub fn mean(self, count: usize, shift: f32) -> f64 {
        f64::from(shift) + self.sum / count as f64
    }

    /// The standard deviation of `count` scores as a whole population; of none, 0.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2⁵³")]
    pub fn standard_deviation(self, count: usize) -> f64 {
        let [mean, square] = [self.sum, self.squares].map(|sum| sum / count as f64);
        (square - mean * mean).max(0.0).sqrt()
    }
}

/// The moments of the columns of a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnMoments {
    /// Σ (s − shift) of each.
    pub sums: [f64; COLUMNS],
    /// Σ (s − shift)² of each.
    pub squares: [f64; COLUMNS],
}

impl ColumnMoments {
    /// No score so far.
    pub const EMPTY: Self = Self { sums: [0.0; COLUMNS], squares: [0.0; COLUMNS] };

    /// Adds what other ones have seen, of the same shifts.
    pub fn merge(&mut self, other: &Self) {
        self.sums.iter_mut().zip(other.sums).for_each(|(sum, other)| *sum += other);
        self.squares.iter_mut().zip(other.squares).for_each(|(sum, other)| *sum += other);
    }

    /// Those of a column.
    #[must_use]
    pub fn column(&self, column: usize) -> Moments {
        Moments { sum: self.sums[column], squares: self.squares[column] }
    }
}

/// Adds the first `used` scores of every row, less the row's shift, to the row's moments, and the scores of every column,
/// less the column's shift, to the column's.
///
/// # Shapes
/// `row_shifts`, `rows`: one for each row of `scores`.
pub fn add_moments(
    scores: &[[f32; COLUMNS]],
    used: usize,
    row_shifts: &[f32],
    column_shifts: &[f32; COLUMNS],
    rows: &mut [Moments],
    columns: &mut ColumnMoments,
) {
    widest!(add(
        scores: &[[f32; COLUMNS]],
        used: usize,
        row_shifts: &[f32],
        column_shifts: &[f32; COLUMNS],
        rows: &mut [Moments],
        columns: &mut ColumnMoments,
    ));
}

#[inline(always)]
fn add(
    scores: &[[f32; COLUMNS]],
    used: usize,
    row_shifts: &[f32],
    column_shifts: &[f32; COLUMNS],
    rows: &mut [Moments],
    columns: &mut ColumnMoments,
) {
    /// Sums kept side by side.
    const LANES: usize = 8;
    for ((scores, &shift), row) in scores.iter().zip(row_shifts).zip(rows) {
        let (mut sums, mut squares) = ([0.0; LANES], [0.0; LANES]);
        for (group, values) in scores.as_chunks::<LANES>().0.iter().enumerate() {
            for lane in 0..LANES {
                let distance = f64::from(values[lane]) - f64::from(shift);
                let distance = if group * LANES + lane < used { distance } else { 0.0 };
                sums[lane] += distance;
                squares[lane] += distance * distance;
            }
        }
        row.merge(Moments { sum: sums.iter().sum(), squares: squares.iter().sum() });
        for c in 0..COLUMNS {
            let distance = f64::from(scores[c]) - f64::from(column_shifts[c]);
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
        // The textbook's eight numbers of mean 5 and standard deviation 2.
        let numbers = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        let mut row = [100.0; COLUMNS];
        row[..8].copy_from_slice(&numbers);
        let (mut rows, mut columns) = ([Moments::default()], ColumnMoments::EMPTY);
        add_moments(&[row], 8, &[2.0], &[0.0; COLUMNS], &mut rows, &mut columns);
        assert_eq!((rows[0].mean(8, 2.0), rows[0].standard_deviation(8)), (5.0, 2.0));

        let (mut rows, mut columns) = ([Moments::default(); 8], ColumnMoments::EMPTY);
        add_moments(&numbers.map(|x| [x; COLUMNS]), COLUMNS, &[0.0; 8], &[2.0; COLUMNS], &mut rows, &mut columns);
        let mut column = columns.column(31);
        assert_eq!((column.mean(8, 2.0), column.standard_deviation(8)), (5.0, 2.0));
        column.merge(columns.column(0));
        assert_eq!((column.mean(16, 2.0), column.standard_deviation(16)), (5.0, 2.0));
        assert_eq!((rows[7].mean(32, 0.0), rows[7].standard_deviation(32)), (9.0, 0.0));
        assert!(Moments::default().mean(0, 1.0).is_nan());
    }
}
