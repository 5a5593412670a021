//! Duplicate vectors, whose scores are all in doubt and all the same.
//!
//! Where a model has collapsed, or a column was filled with one value, no two scores differ, and each would be computed
//! exactly. An exact score is a function of the two vectors alone, so it is computed once for vectors that are equal.

use std::collections::HashMap;

use super::side::Side;

/// For every row and for every column the number of its class of equal ones.
#[derive(Debug)]
pub struct Duplicates([Vec<u32>; 2]);

/// Pairs for each pair of classes, from which on it is worth looking a score up.
const PAIRS: usize = 8;

impl Duplicates {
    /// Classes of rows and of columns by digests of their contents; `None` where too few are equal.
    #[must_use]
    pub fn of(digests: [Vec<[u8; 32]>; 2]) -> Option<Self> {
        let [(rows, different_rows), (columns, different_columns)] = digests.map(classes);
        let many = different_rows * different_columns <= rows.len() * columns.len() / PAIRS;
        many.then_some(Self([rows, columns]))
    }

    /// A number that pairs of equal vectors have in common.
    pub(super) fn pair(&self, side: Side, query: usize, item: usize) -> u64 {
        let (row, column) = if side == Side::Rows { (query, item) } else { (item, query) };
        u64::from(self.0[0][row]) << 32 | u64::from(self.0[1][column])
    }
}

/// The class of each digest, and how many classes there are.
fn classes(digests: Vec<[u8; 32]>) -> (Vec<u32>, usize) {
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
