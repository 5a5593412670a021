//! Stored table of scores.

use std::ops::Range;
use std::sync::OnceLock;

use super::{ConsumePanel, MatrixSide, PanelRow, ScoreBound, ScorePrecision, Scores, rows_per_buffer};
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_kernels::identity::IdentityWriter;
use pairloom_kernels::product::TILE_COLUMNS;

/// Table of the scores of all rows with all columns: for models whose score is no function of two vectors, such as
/// cross-attention, or for scores that another program computed.
///
/// The values of the table are both the exact and the approximate scores, so the error is 0.
///
/// Rows need not be neighbours in memory, and the table may be the transpose of what is in memory.
///
/// # Cost
/// A look-up for each score. One pass over the table for the largest value of each row and column, and another one for
/// its digest if a search has checkpoints.
#[derive(Debug)]
pub struct ScoreTable<'t> {
    /// Rows as they are in memory.
    stored: Vec<&'t [f32]>,
    /// True if the rows in memory are the columns of the table.
    is_transposed: bool,
    sizes: [usize; 2],
    /// Largest absolute value of every row and of every column.
    largest: [Vec<f32>; 2],
    digest: OnceLock<blake3::Hash>,
}

impl<'t> ScoreTable<'t> {
    /// Checks the table; `name` is its name in error messages.
    ///
    /// # Shapes
    /// `values`: `rows × columns`, row-major, in memory or memory-mapped.
    ///
    /// # Errors
    /// The number of values is not `rows × columns`; there are more than 2³² rows or columns; or scores are not finite,
    /// which are named by row and column.
    pub fn new(name: &str, values: &'t [f32], [rows, columns]: [usize; 2]) -> Result<Self> {
        if rows.checked_mul(columns) != Some(values.len()) {
            let message = format!("`{name}` has {} scores, expected {rows} rows of {columns}", values.len());
            return Err(Error::data(message).hint("the table is row-major: all scores of row 0 come first"));
        }
        let stored = (0..rows).map(|row| &values[row * columns..][..columns]).collect();
        Self::of_stored(name, stored, false, [rows, columns])
    }

    /// Checks a table whose rows are slices of other memory, each with `columns` scores.
    pub fn from_rows(name: &str, rows: Vec<&'t [f32]>, columns: usize) -> Result<Self> {
        let sizes = [rows.len(), columns];
        Self::of_stored(name, rows, false, sizes)
    }

    /// Checks a table whose columns are slices of other memory, each with `rows` scores.
    pub fn from_columns(name: &str, columns: Vec<&'t [f32]>, rows: usize) -> Result<Self> {
        let sizes = [rows, columns.len()];
        Self::of_stored(name, columns, true, sizes)
    }

    fn of_stored(name: &str, stored: Vec<&'t [f32]>, is_transposed: bool, sizes: [usize; 2]) -> Result<Self> {
        let [rows, columns] = sizes;
        let wanted = if is_transposed { rows } else { columns };
        if let Some(wrong) = stored.iter().find(|stored| stored.len() != wanted) {
            let message = format!("`{name}` has a row of {} scores, expected {wanted}", wrong.len());
            return Err(Error::data(message));
        }
        if sizes.iter().any(|&size| u32::try_from(size).is_err()) {
            return Err(Error::data(format!("`{name}` is {rows} × {columns}, expected fewer than 2³² of both")));
        }
        let mut mistakes = ValidationErrors::in_table(name);
        let (mut stored_largest, mut across) = (vec![0.0f32; stored.len()], vec![0.0f32; wanted]);
        for (number, (stored, row_largest)) in stored.iter().zip(&mut stored_largest).enumerate() {
            for (place, (score, column_largest)) in stored.iter().zip(&mut across).enumerate() {
                if !score.is_finite() {
                    let (row, column) = if is_transposed { (place, number) } else { (number, place) };
                    let place = format_args!("row {row}, column {column}");
                    mistakes.add(place, format_args!("got {score}, expected a finite score"));
                }
                *column_largest = score.abs().max(*column_largest);
                *row_largest = score.abs().max(*row_largest);
            }
        }
        mistakes.into_result()?;
        let largest = if is_transposed { [across, stored_largest] } else { [stored_largest, across] };
        Ok(Self { stored, is_transposed, sizes, largest, digest: OnceLock::new() })
    }

    fn score(&self, row: usize, column: usize) -> f32 {
        if self.is_transposed { self.stored[column][row] } else { self.stored[row][column] }
    }
}

impl Scores for ScoreTable<'_> {
    fn shape(&self) -> [usize; 2] {
        self.sizes
    }

    fn cost(&self) -> u64 {
        1
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn bounds(&self, _precision: ScorePrecision) -> [Vec<ScoreBound>; 2] {
        self.largest.each_ref().map(|largest| {
            largest.iter().map(|&largest| ScoreBound { error: 0.0, largest: f64::from(largest) }).collect()
        })
    }

    fn block_rows(&self, _precision: ScorePrecision) -> usize {
        rows_per_buffer(self.sizes[1])
    }

    fn compute_block(
        &self,
        _precision: ScorePrecision,
        rows: Range<usize>,
        buffer: &mut Vec<PanelRow>,
        consume: ConsumePanel<'_>,
    ) -> Result<()> {
        let columns = self.sizes[1];
        for panel in 0..columns.div_ceil(TILE_COLUMNS) {
            let first = panel * TILE_COLUMNS;
            let used = (columns - first).min(TILE_COLUMNS);
            buffer.clear();
            buffer.resize(rows.len(), [0.0; TILE_COLUMNS]);
            if self.is_transposed {
                for column in 0..used {
                    for (lane, &score) in buffer.iter_mut().zip(&self.stored[first + column][rows.clone()]) {
                        lane[column] = score;
                    }
                }
            } else {
                for (lane, row) in buffer.iter_mut().zip(rows.clone()) {
                    lane[..used].copy_from_slice(&self.stored[row][first..first + used]);
                }
            }
            consume(panel, buffer)?;
        }
        Ok(())
    }

    fn exact_scores(&self, side: MatrixSide, query: usize, items: &[usize], scores: &mut Vec<f32>) -> Result<()> {
        scores.clear();
        scores.extend(items.iter().map(|&item| match side {
            MatrixSide::Rows => self.score(query, item),
            MatrixSide::Columns => self.score(item, query),
        }));
        Ok(())
    }

    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        let digest = self.digest.get_or_init(|| {
            let mut hasher = blake3::Hasher::new();
            let mut sink = |bytes: &[u8]| {
                hasher.update(bytes);
            };
            let [rows, columns] = self.sizes;
            for row in 0..rows {
                let scores: Vec<f32> = (0..columns).map(|column| self.score(row, column)).collect();
                IdentityWriter::new(&mut sink).write_f32s(&scores);
            }
            hasher.finalize()
        });
        fields.write_text("table");
        fields.write_usizes(&self.sizes);
        fields.write_bytes(digest.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_tables_are_named() {
        let fails = |values: &[f32], sizes| ScoreTable::new("attention", values, sizes).expect_err("bad").to_string();
        assert!(fails(&[1.0; 5], [2, 3]).contains("`attention` has 5 scores, expected 2 rows of 3"));
        assert!(fails(&[], [usize::MAX, 2]).contains("has 0 scores"));
        let message = fails(&[0.0, 1.0, f32::NAN, 0.0, f32::INFINITY, 0.0], [2, 3]);
        for expected in ["2 mistakes", "row 0, column 2: got NaN", "row 1, column 1: got inf"] {
            assert!(message.contains(expected), "{message}");
        }
        assert_eq!(ScoreTable::new("none", &[], [0, 4]).expect("no rows").shape(), [0, 4]);
        assert_eq!(ScoreTable::new("none", &[], [4, 0]).expect("no columns").shape(), [4, 0]);
    }

    /// Part of a table of 3 × 4 with the rows 2 and 1 and the columns 1 to 3, and its transpose.
    #[test]
    fn parts_and_transposes_share_the_memory_of_the_table() {
        let values: Vec<f32> = (0..12u8).map(f32::from).collect();
        let rows = || vec![&values[9..12], &values[5..8]];
        let part = ScoreTable::from_rows("t", rows(), 3).expect("a part");
        let transposed = ScoreTable::from_columns("t", rows(), 3).expect("a part");
        let whole = |table: &ScoreTable<'_>| {
            let ([rows, columns], mut found) = (table.shape(), Vec::new());
            let mut consume = |_: usize, lanes: &[PanelRow]| {
                found.extend(lanes.iter().map(|lane| lane[..columns].to_vec()));
                Ok(())
            };
            table.compute_block(ScorePrecision::Fine, 0..rows, &mut Vec::new(), &mut consume).expect("scores");
            found
        };
        assert_eq!(whole(&part), [[9.0, 10.0, 11.0], [5.0, 6.0, 7.0]]);
        assert_eq!(whole(&transposed), [[9.0, 5.0], [10.0, 6.0], [11.0, 7.0]]);
        let mut scores = Vec::new();
        transposed.exact_scores(MatrixSide::Rows, 2, &[1, 0], &mut scores).expect("scores");
        assert_eq!(scores, [7.0, 11.0]);
        transposed.exact_scores(MatrixSide::Columns, 1, &[0], &mut scores).expect("scores");
        assert_eq!((scores, part.largest[0].clone()), (vec![5.0], vec![11.0, 7.0]));
        let error = ScoreTable::from_rows("t", rows(), 4).expect_err("too few").to_string();
        assert_eq!(error, "`t` has a row of 3 scores, expected 4");
        let bad = [1.0, f32::NAN];
        let error = ScoreTable::from_columns("t", vec![&bad], 2).expect_err("not a number").to_string();
        assert!(error.contains("row 1, column 0: got NaN"), "{error}");
    }

    #[test]
    fn bounds_are_of_rows_and_columns() {
        let table = ScoreTable::new("t", &[0.5, -2.0, 0.0, 1.0, 1.5, -0.5], [2, 3]).expect("good");
        let largest = table
            .bounds(ScorePrecision::Fine)
            .map(|bounds| bounds.iter().map(|bound| bound.largest).collect::<Vec<_>>());
        assert_eq!(largest, [vec![2.0, 1.5], vec![1.0, 2.0, 0.5]]);
    }
}
