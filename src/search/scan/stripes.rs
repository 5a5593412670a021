//! Stripes of rows: what threads take from each other, and what sums over rows are added up in.

use std::ops::Range;

use crate::kernels::product::ROWS;

/// Rows of the shortest and of the longest stripe, and how many stripes there are in between.
const SHORTEST: usize = 16 * ROWS;
const LONGEST: usize = 64 * ROWS;
const STRIPES: usize = 64;

/// Rows that are one stripe: a function of their number alone, so that what is summed over the rows of a stripe, and then
/// over stripes, has the same bits for any number of threads.
pub fn stripe_rows(rows: usize) -> usize {
    rows.div_ceil(STRIPES).clamp(SHORTEST, LONGEST).next_multiple_of(ROWS)
}

/// How many stripes there are.
pub fn stripes(rows: usize) -> usize {
    rows.div_ceil(stripe_rows(rows))
}

/// The rows of these stripes, where there are `rows` in all.
pub fn rows_of(stripes: &Range<usize>, rows: usize) -> Range<usize> {
    let stripe = stripe_rows(rows);
    rows.min(stripes.start * stripe)..rows.min(stripes.end * stripe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_whole_tiles_and_hold_every_row_once() {
        for rows in [0, 1, 192, 193, 5_000, 20_000, 31_014, 123_287, 1_000_003] {
            let (stripe, count) = (stripe_rows(rows), stripes(rows));
            assert_eq!(stripe % ROWS, 0, "{rows}");
            assert!(count <= STRIPES || stripe == LONGEST, "{rows}");
            let each = (0..count).map(|number| rows_of(&(number..number + 1), rows));
            assert!(each.clone().all(|stripe| !stripe.is_empty()), "{rows}");
            assert!(each.flatten().eq(0..rows), "{rows}");
            assert_eq!(rows_of(&(0..count), rows), 0..rows);
        }
    }
}
