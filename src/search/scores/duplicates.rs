//! Duplicate vectors, which share their exact scores.
//!
//! If a model has collapsed, or a column holds one value, all scores are equal, so every pair is uncertain. The exact
//! score of a pair depends on its two vectors alone, so it is computed once for each pair of distinct vectors.

use std::collections::HashMap;

use super::side::MatrixSide;

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
