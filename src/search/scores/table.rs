//! Stored table of scores.

use std::ops::Range;
use std::sync::OnceLock;

use super::side::MatrixSide;
use super::source::{ConsumePanel, PanelRow, ScoreBound, ScorePrecision, Scores, consume_row_major, rows_per_buffer};
use crate::error::{Error, Result, ValidationErrors};
use crate::kernels::identity::IdentityWriter;

/// Table of the scores of all rows with all columns: for models whose score is no function of two vectors, such as
/// cross-attention, or for scores that another program computed.
///
/// The values of the table are both the exact and the approximate scores, so the error is 0.
///
/// # Cost
/// A look-up for each score. One pass over the table for the largest value of each row and column, and another one for
/// its digest if a search has checkpoints.
#[derive(Debug)]
pub struct ScoreTable<'t> {
    values: &'t [f32],
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
        if [rows, columns].iter().any(|&size| u32::try_from(size).is_err()) {
            return Err(Error::data(format!("`{name}` is {rows} × {columns}, wanted fewer than 2³² of both")));
        }
        let mut mistakes = ValidationErrors::in_table(name);
        let mut largest = [vec![0.0; rows], vec![0.0; columns]];
        for (row, scores) in values.chunks_exact(columns.max(1)).enumerate() {
            let [of_rows, of_columns] = &mut largest;
            for (column, (score, of_column)) in scores.iter().zip(of_columns).enumerate() {
                if !score.is_finite() {
                    let place = format_args!("row {row}, column {column}");
                    mistakes.add(place, format_args!("got {score}, wanted a finite score"));
                }
                *of_column = score.abs().max(*of_column);
                of_rows[row] = score.abs().max(of_rows[row]);
            }
        }
        mistakes.into_result()?;
        Ok(Self { values, sizes: [rows, columns], largest, digest: OnceLock::new() })
    }

    fn score(&self, row: usize, column: usize) -> f32 {
        self.values[row * self.sizes[1] + column]
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
        consume_row_major(&self.values[rows.start * columns..rows.end * columns], columns, buffer, consume)
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
            IdentityWriter::new(&mut sink).write_f32s(self.values);
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

    #[test]
    fn bounds_are_of_rows_and_columns() {
        let table = ScoreTable::new("t", &[0.5, -2.0, 0.0, 1.0, 1.5, -0.5], [2, 3]).expect("good");
        let largest =
            table.bounds(ScorePrecision::Fine).map(|of| of.iter().map(|bound| bound.largest).collect::<Vec<_>>());
        assert_eq!(largest, [vec![2.0, 1.5], vec![1.0, 2.0, 0.5]]);
    }
}
