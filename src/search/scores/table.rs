//! Stored table of scores.

use std::ops::Range;
use std::sync::OnceLock;

use super::side::MatrixSide;
use super::source::{ConsumePanel, PanelRow, ScoreBound, ScorePrecision, Scores, rows_per_buffer};
use crate::error::{Error, Result, ValidationErrors};
use crate::kernels::identity::IdentityWriter;
use crate::kernels::product::TILE_COLUMNS;

/// Table of the scores of all rows with all columns: for models whose score is no function of two vectors, such as
/// cross-attention, or for scores that another program computed.
///
/// The values of the table are both the exact and the approximate scores, so the error is 0.
///
/// A table may be a part of a larger one, and its rows may be images or captions.
///
/// # Cost
/// A look-up for each score. One pass over the table for the largest value of each row and column, and another one for
/// its digest if a search has checkpoints.
#[derive(Debug)]
pub struct ScoreTable<'t> {
    /// Values from the first score on.
    values: &'t [f32],
    /// Distances of neighbouring rows and of neighbouring columns in `values`.
    strides: [usize; 2],
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
            let message = format!("`{name}` has {} scores, wanted {rows} rows of {columns}", values.len());
            return Err(Error::data(message).hint("the table is row-major: all scores of row 0 come first"));
        }
        Self::with_strides(name, values, [columns, 1], [rows, columns])
    }

    /// Checks a part of a larger table, or a table whose columns are contiguous in memory. The score of a row and a column
    /// is `values[row · strides[0] + column · strides[1]]`.
    ///
    /// # Errors
    /// As [`ScoreTable::new`].
    pub fn with_strides(
        name: &str,
        values: &'t [f32],
        strides: [usize; 2],
        [rows, columns]: [usize; 2],
    ) -> Result<Self> {
        let last = |axis: usize, size: usize| size.checked_sub(1).map_or(0, |last| last.saturating_mul(strides[axis]));
        if rows > 0 && columns > 0 && last(0, rows).saturating_add(last(1, columns)) >= values.len() {
            let message = format!("`{name}` has {} scores, too few for {rows} rows of {columns}", values.len());
            return Err(Error::data(message));
        }
        if [rows, columns].iter().any(|&size| u32::try_from(size).is_err()) {
            return Err(Error::data(format!("`{name}` is {rows} × {columns}, wanted fewer than 2³² of both")));
        }
        let mut mistakes = ValidationErrors::in_table(name);
        let (mut of_rows, mut of_columns) = (vec![0.0f32; rows], vec![0.0f32; columns]);
        for (row, of_row) in of_rows.iter_mut().enumerate() {
            for (column, of_column) in of_columns.iter_mut().enumerate() {
                let score = values[row * strides[0] + column * strides[1]];
                if !score.is_finite() {
                    let place = format_args!("row {row}, column {column}");
                    mistakes.add(place, format_args!("got {score}, wanted a finite score"));
                }
                *of_column = score.abs().max(*of_column);
                *of_row = score.abs().max(*of_row);
            }
        }
        mistakes.into_result()?;
        let largest = [of_rows, of_columns];
        Ok(Self { values, strides, sizes: [rows, columns], largest, digest: OnceLock::new() })
    }

    fn score(&self, row: usize, column: usize) -> f32 {
        self.values[row * self.strides[0] + column * self.strides[1]]
    }
}

impl Scores for ScoreTable<'_> {
    fn shape(&self) -> [usize; 2] {
        self.sizes
    }

    fn cost(&self) -> u64 {
        1
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
            if self.strides[1] == 1 {
                for (lane, row) in buffer.iter_mut().zip(rows.clone()) {
                    lane[..used].copy_from_slice(&self.values[row * self.strides[0] + first..][..used]);
                }
            } else {
                for column in 0..used {
                    for (lane, row) in buffer.iter_mut().zip(rows.clone()) {
                        lane[column] = self.score(row, first + column);
                    }
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
        assert!(fails(&[1.0; 5], [2, 3]).contains("`attention` has 5 scores, wanted 2 rows of 3"));
        assert!(fails(&[], [usize::MAX, 2]).contains("has 0 scores"));
        let message = fails(&[0.0, 1.0, f32::NAN, 0.0, f32::INFINITY, 0.0], [2, 3]);
        for wanted in ["2 mistakes", "row 0, column 2: got NaN", "row 1, column 1: got inf"] {
            assert!(message.contains(wanted), "{message}");
        }
        assert_eq!(ScoreTable::new("none", &[], [0, 4]).expect("no rows").shape(), [0, 4]);
        assert_eq!(ScoreTable::new("none", &[], [4, 0]).expect("no columns").shape(), [4, 0]);
    }

    /// Part of a table of 3 × 4 with the rows 1 and 2 and the columns 1 to 3, and its transpose.
    #[test]
    fn parts_and_transposes_share_the_memory_of_the_table() {
        let values: Vec<f32> = (0..12u8).map(f32::from).collect();
        let part = ScoreTable::with_strides("t", &values[5..], [4, 1], [2, 3]).expect("a part");
        let transposed = ScoreTable::with_strides("t", &values[5..], [1, 4], [3, 2]).expect("a part");
        let whole = |table: &ScoreTable<'_>| {
            let ([rows, columns], mut found) = (table.shape(), Vec::new());
            let mut consume = |_: usize, lanes: &[PanelRow]| {
                found.extend(lanes.iter().map(|lane| lane[..columns].to_vec()));
                Ok(())
            };
            table.compute_block(ScorePrecision::Fine, 0..rows, &mut Vec::new(), &mut consume).expect("scores");
            found
        };
        assert_eq!(whole(&part), [[5.0, 6.0, 7.0], [9.0, 10.0, 11.0]]);
        assert_eq!(whole(&transposed), [[5.0, 9.0], [6.0, 10.0], [7.0, 11.0]]);
        let mut scores = Vec::new();
        transposed.exact_scores(MatrixSide::Rows, 2, &[1, 0], &mut scores).expect("scores");
        assert_eq!(scores, [11.0, 7.0]);
        transposed.exact_scores(MatrixSide::Columns, 1, &[0], &mut scores).expect("scores");
        assert_eq!((scores, part.largest[0].clone()), (vec![9.0], vec![7.0, 11.0]));
        let error = ScoreTable::with_strides("t", &values[6..], [4, 1], [2, 3]).expect_err("too few").to_string();
        assert_eq!(error, "`t` has 6 scores, too few for 2 rows of 3");
    }

    #[test]
    fn bounds_are_of_rows_and_columns() {
        let table = ScoreTable::new("t", &[0.5, -2.0, 0.0, 1.0, 1.5, -0.5], [2, 3]).expect("good");
        let largest =
            table.bounds(ScorePrecision::Fine).map(|of| of.iter().map(|bound| bound.largest).collect::<Vec<_>>());
        assert_eq!(largest, [vec![2.0, 1.5], vec![1.0, 2.0, 0.5]]);
    }
}
