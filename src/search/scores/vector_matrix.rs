//! Matrix of vectors that can be searched, and its duplicate vectors, which share their exact scores.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use super::MatrixSide;
use super::score_function::ScoreFunction;
use crate::threads::parallel_ranges;
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_kernels::product::{ElementType, NormBound};

/// Maximum norm, 2⁶²: products of two such vectors do not overflow f32.
const MAX_NORM: f64 = 4.611_686_018_427_388e18;

/// Vectors of one width, row-major. All values are finite, and no vector is 0.
#[derive(Debug, Clone)]
pub struct VectorMatrix<'v> {
    values: Cow<'v, [f32]>,
    width: usize,
    norms: Vec<f64>,
}

impl<'v> VectorMatrix<'v> {
    /// Checks the vectors; `name` is their name in error messages.
    ///
    /// # Shapes
    /// `values`: `n × width`, row-major; n may be 0.
    ///
    /// # Errors
    /// Rows with values that are not finite, with norm 0 or above 2⁶², which are named from 0. More than 2³² rows.
    /// `width` is 0, or `values` are no whole number of vectors.
    pub fn new(name: &str, values: &'v [f32], width: usize) -> Result<Self> {
        Self::from_cow(name, Cow::Borrowed(values), width, 1)
    }

    /// As [`VectorMatrix::new`], by several threads.
    pub fn with_threads(name: &str, values: &'v [f32], width: usize, threads: usize) -> Result<Self> {
        Self::from_cow(name, Cow::Borrowed(values), width, threads)
    }

    /// As [`VectorMatrix::with_threads`], of values that may be owned.
    pub(crate) fn from_cow(name: &str, values: Cow<'v, [f32]>, width: usize, threads: usize) -> Result<Self> {
        if width == 0 || !values.len().is_multiple_of(width) {
            let message = format!("`{name}` has {} values, no whole number of vectors of width {width}", values.len());
            return Err(Error::internal(message));
        }
        if u32::try_from(values.len() / width).is_err() {
            return Err(Error::data(format!("`{name}` has {} rows, expected fewer than 2³²", values.len() / width)));
        }
        let mut mistakes = ValidationErrors::in_table(name);
        let norm = |row: &[f32]| NormBound::of_packed(ElementType::F32, row).norm;
        let norms_of = |rows: Range<usize>| -> Vec<f64> {
            values[rows.start * width..rows.end * width].chunks_exact(width).map(norm).collect()
        };
        let norms = parallel_ranges(threads, values.len() / width, norms_of).concat();
        for (row, &norm) in norms.iter().enumerate() {
            if !norm.is_finite() {
                let vector = &values[row * width..][..width];
                let (place, value) = vector.iter().enumerate().find(|(_, x)| !x.is_finite()).unwrap_or((0, &f32::NAN));
                mistakes
                    .add(format_args!("row {row}"), format_args!("got {value} at {place}, expected finite numbers"));
            } else if norm == 0.0 {
                mistakes.add(format_args!("row {row}"), "got a vector of zeros, which has no direction");
            } else if norm > MAX_NORM {
                mistakes.add(format_args!("row {row}"), format_args!("got norm {norm:.1e}, expected at most 2⁶²"));
            }
        }
        mistakes.into_result()?;
        Ok(Self { values, width, norms })
    }

    /// Copies some of the vectors, in this order.
    pub(super) fn subset(&self, some: &[usize]) -> Self {
        Self {
            values: some.iter().flat_map(|&i| self.row(i).iter().copied()).collect(),
            width: self.width,
            norms: some.iter().map(|&i| self.norms[i]).collect(),
        }
    }

    /// Number of vectors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.norms.len()
    }

    /// Returns true if there are no vectors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.norms.is_empty()
    }

    /// Number of values of a vector.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns vector `i`.
    #[must_use]
    pub fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.width..][..self.width]
    }

    /// Returns the values of a range of vectors, row-major.
    #[must_use]
    pub fn rows(&self, some: Range<usize>) -> &[f32] {
        &self.values[some.start * self.width..some.end * self.width]
    }

    /// Returns the L2 norms of the vectors.
    #[must_use]
    pub fn norms(&self) -> &[f64] {
        &self.norms
    }
}

// If a model has collapsed, or a column holds one value, all scores are equal, so every pair is uncertain. The exact
// score of a pair depends on its two vectors alone, so it is computed once for each pair of distinct vectors.

/// Class numbers of the rows and of the columns; equal vectors have the same number.
#[derive(Debug)]
pub struct Duplicates([Vec<u32>; 2]);

/// Minimum mean number of pairs for each pair of classes: below it a look-up does not pay off.
const MIN_PAIRS_PER_CLASS: usize = 8;

impl Duplicates {
    /// Classes of rows and of columns by digests of their contents; `None` if too few vectors are equal.
    #[must_use]
    pub fn from_digests(digests: [Vec<[u8; 32]>; 2]) -> Option<Self> {
        let [(rows, different_rows), (columns, different_columns)] = digests.map(classify);
        let many = different_rows * different_columns <= rows.len() * columns.len() / MIN_PAIRS_PER_CLASS;
        many.then_some(Self([rows, columns]))
    }

    /// Class number of a pair. Pairs of equal vectors have the same number.
    pub(super) fn pair_class(&self, side: MatrixSide, query: usize, item: usize) -> u64 {
        let (row, column) = if side == MatrixSide::Rows { (query, item) } else { (item, query) };
        u64::from(self.0[0][row]) << 32 | u64::from(self.0[1][column])
    }
}

/// Class of each digest, and the number of classes.
fn classify(digests: Vec<[u8; 32]>) -> (Vec<u32>, usize) {
    let (mut numbers, mut next) = (HashMap::new(), 0);
    let number = |digest: [u8; 32]| {
        *numbers.entry(digest).or_insert_with(|| {
            next += 1;
            next - 1
        })
    };
    let classes: Vec<u32> = digests.into_iter().map(number).collect();
    (classes, next as usize)
}

/// Vectors of both sides with their score function.
#[derive(Debug, Clone, Copy)]
pub struct ScoredVectors<'s> {
    /// Rows.
    pub rows: &'s VectorMatrix<'s>,
    /// Columns.
    pub columns: &'s VectorMatrix<'s>,
    /// Score function of a row and a column.
    pub score_function: ScoreFunction,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_rows_are_named() {
        let fails = |values: &[f32], width| VectorMatrix::new("captions", values, width).expect_err("bad").to_string();
        let message = fails(&[1.0, 0.0, f32::NAN, 1.0, 0.0, 0.0, 1.0, f32::INFINITY, 1e30, 0.0], 2);
        for expected in [
            "`captions` has 4 mistakes",
            "row 1: got NaN at 0",
            "row 2: got a vector of zeros",
            "row 3: got inf at 1",
            "row 4: got norm 1.0e30",
        ] {
            assert!(message.contains(expected), "{message}");
        }
        let many = fails(&[0.0; 50], 2);
        assert!(many.contains("25 mistakes") && many.ends_with("and 5 more"), "{many}");
        assert!(fails(&[1.0; 3], 2).contains("3 values"));
        assert!(fails(&[1.0; 3], 0).contains("width 0"));
        // Finite values have a finite norm.
        assert!(fails(&[f32::MAX; 2], 2).contains("row 0: got norm"));
    }

    #[test]
    fn rows_and_norms() {
        let vectors = VectorMatrix::new("images", &[3.0, 4.0, 0.0, -2.0], 2).expect("good");
        assert_eq!((vectors.len(), vectors.width(), vectors.row(1)), (2, 2, &[0.0, -2.0][..]));
        assert_eq!((vectors.rows(0..2), vectors.rows(1..2)), (&[3.0, 4.0, 0.0, -2.0][..], vectors.row(1)));
        assert_eq!(vectors.norms(), [5.0, 2.0]);
        assert!(VectorMatrix::new("images", &[], 7).expect("none").is_empty());
    }
}
