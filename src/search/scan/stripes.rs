//! Stripes of rows: the unit of work of a thread, and the unit in which sums over rows are added up.

use std::ops::Range;

use pairloom_kernels::product::TILE_ROWS;

/// Minimum and maximum number of rows of a stripe, and the number of stripes between these limits.
const MIN_STRIPE_ROWS: usize = 16 * TILE_ROWS;
const MAX_STRIPE_ROWS: usize = 64 * TILE_ROWS;
const TARGET_STRIPES: usize = 64;

/// Number of rows of a stripe. It depends on the number of all rows alone, so sums over the rows of a stripe, and then
/// over stripes, have the same bits for any number of threads.
pub fn stripe_rows(rows: usize) -> usize {
    rows.div_ceil(TARGET_STRIPES).clamp(MIN_STRIPE_ROWS, MAX_STRIPE_ROWS).next_multiple_of(TILE_ROWS)
}

/// Number of stripes.
pub fn stripe_count(rows: usize) -> usize {
    rows.div_ceil(stripe_rows(rows))
}

/// Rows of a range of stripes, if there are `rows` in all.
pub fn stripe_rows_range(stripes: &Range<usize>, rows: usize) -> Range<usize> {
    let stripe = stripe_rows(rows);
    rows.min(stripes.start * stripe)..rows.min(stripes.end * stripe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_whole_tiles_and_hold_every_row_once() {
        for rows in [0, 1, 192, 193, 5_000, 20_000, 31_014, 123_287, 1_000_003] {
            let (stripe, count) = (stripe_rows(rows), stripe_count(rows));
            assert_eq!(stripe % TILE_ROWS, 0, "{rows}");
            assert!(count <= TARGET_STRIPES || stripe == MAX_STRIPE_ROWS, "{rows}");
            let each = (0..count).map(|number| stripe_rows_range(&(number..number + 1), rows));
            assert!(each.clone().all(|stripe| !stripe.is_empty()), "{rows}");
            assert!(each.flatten().eq(0..rows), "{rows}");
            assert_eq!(stripe_rows_range(&(0..count), rows), 0..rows);
        }
    }
}
