//! Tile kernel of order embeddings: sums of squared violations, Σ max(0, cₖ − iₖ)², in place of products
//! ([`order_similarity`](crate::order_similarity)).

use super::tile::{TILE_COLUMNS, TILE_ROWS, Tile};

/// Direction of order violations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderViolation {
    /// Σ max(0, column − row)².
    ColumnsExceedRows,
    /// Σ max(0, row − column)².
    RowsExceedColumns,
}

/// Adds the violations between the first `rows` rows of a panel of the left factor and a panel of the right factor to a
/// tile. Both are packed in f32 with the same depth.
///
/// A value of the tile depends on its row and its column only. All terms have one sign, so the relative error is that
/// of [`order_similarity_error`](crate::order_similarity::order_similarity_error).
pub fn add_violations(violation: OrderViolation, rows: usize, left: &[u32], right: &[u32], out: &mut Tile) {
    #[cfg(target_arch = "x86_64")]
    if crate::cpu::has_avx512() {
        return avx512::add_violations(violation, rows, left, right, out);
    }
    portable(violation, rows, left, right, out);
}

fn portable(violation: OrderViolation, rows: usize, left: &[u32], right: &[u32], out: &mut Tile) {
    for (a, b) in left.as_chunks::<TILE_ROWS>().0.iter().zip(right.as_chunks::<TILE_COLUMNS>().0) {
        for (sums, &a) in out.0.iter_mut().zip(a).take(rows) {
            for (sum, &b) in sums.iter_mut().zip(b) {
                let over = match violation {
                    OrderViolation::ColumnsExceedRows => f32::from_bits(b) - f32::from_bits(a),
                    OrderViolation::RowsExceedColumns => f32::from_bits(a) - f32::from_bits(b),
                };
                let over = if over > 0.0 { over } else { 0.0 };
                *sum += over * over;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "vector instructions that the CPU is checked to support")]
mod avx512 {
    use std::arch::x86_64::{
        _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps, _mm512_sub_ps,
    };

    use super::{OrderViolation, TILE_COLUMNS, TILE_ROWS, Tile};
    use crate::vector_instructions::_mm512_max_ps;

    pub(super) fn add_violations(violation: OrderViolation, rows: usize, left: &[u32], right: &[u32], out: &mut Tile) {
        macro_rules! rows {
            ($($count:literal)*) => {
                match (violation, rows) {
                    // SAFETY: the caller has checked for the feature.
                    $((OrderViolation::ColumnsExceedRows, $count) => unsafe { sums::<$count, false>(left, right, out) },)*
                    // SAFETY: as above.
                    $((OrderViolation::RowsExceedColumns, $count) => unsafe { sums::<$count, true>(left, right, out) },)*
                    _ => {}
                }
            };
        }
        rows!(1 2 3 4 5 6 7 8 9 10 11 12);
    }

    #[target_feature(enable = "avx512f")]
    fn sums<const N: usize, const ROWS_EXCEED: bool>(left: &[u32], right: &[u32], out: &mut Tile) {
        let zero = _mm512_setzero_ps();
        let mut sums = [[zero; 2]; N];
        for (a, b) in left.as_chunks::<TILE_ROWS>().0.iter().zip(right.as_chunks::<TILE_COLUMNS>().0) {
            // SAFETY: there are 32 values of 4 bytes.
            let first = unsafe { _mm512_loadu_ps(b.as_ptr().cast()) };
            // SAFETY: as above.
            let second = unsafe { _mm512_loadu_ps(b[16..].as_ptr().cast()) };
            for (sum, &a) in sums.iter_mut().zip(a) {
                let a = _mm512_set1_ps(f32::from_bits(a));
                for (sum, b) in sum.iter_mut().zip([first, second]) {
                    let over = if ROWS_EXCEED { _mm512_sub_ps(a, b) } else { _mm512_sub_ps(b, a) };
                    let over = _mm512_max_ps(over, zero);
                    *sum = _mm512_fmadd_ps(over, over, *sum);
                }
            }
        }
        for (row, sums) in out.0.iter_mut().zip(sums) {
            let mut values = [0.0; TILE_COLUMNS];
            // SAFETY: a row has 32 values.
            unsafe { _mm512_storeu_ps(values.as_mut_ptr(), sums[0]) };
            // SAFETY: as above.
            unsafe { _mm512_storeu_ps(values[16..].as_mut_ptr(), sums[1]) };
            row.iter_mut().zip(values).for_each(|(to, value)| *to += value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order_similarity::{OrderPenalty, order_similarity};
    use crate::product::{ElementType, LeftFactor, RightFactor};
    use crate::random::Rng;

    /// Compares with the definition in f64, for every number of rows, full and partial panels, and both directions.
    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    fn tiles_are_order_violations() {
        let mut rng = Rng::new(4, &[]);
        const DEPTHS: &[usize] = if cfg!(miri) { &[2] } else { &[1, 2, 7, 129] };
        for &depth in DEPTHS {
            for rows in (1..=TILE_ROWS).step_by(if cfg!(miri) { 11 } else { 1 }) {
                let mut vectors =
                    |count: usize| -> Vec<f32> { (0..count * depth).map(|_| rng.uniform() as f32).collect() };
                let (a, b) = (vectors(rows), vectors(TILE_COLUMNS));
                let left = LeftFactor::from_rows(ElementType::F32, rows, depth, |i| &a[i * depth..][..depth]);
                let right =
                    RightFactor::from_columns(ElementType::F32, depth, TILE_COLUMNS, |j| &b[j * depth..][..depth]);
                for violation in [OrderViolation::ColumnsExceedRows, OrderViolation::RowsExceedColumns] {
                    let (mut found, mut plain) = (Tile::ZERO, Tile::ZERO);
                    add_violations(violation, rows, left.panel(0), right.panel(0), &mut found);
                    portable(violation, rows, left.panel(0), right.panel(0), &mut plain);
                    for i in 0..rows {
                        for j in 0..TILE_COLUMNS {
                            let (row, column) = (&a[i * depth..][..depth], &b[j * depth..][..depth]);
                            let wanted = match violation {
                                OrderViolation::ColumnsExceedRows => {
                                    -order_similarity(row, column, OrderPenalty::Squared)
                                }
                                OrderViolation::RowsExceedColumns => {
                                    -order_similarity(column, row, OrderPenalty::Squared)
                                }
                            };
                            for got in [found.0[i][j], plain.0[i][j]] {
                                assert!((got - wanted).abs() <= 1e-5 * wanted, "{rows}x{depth} ({i}, {j}): {got}");
                            }
                        }
                    }
                    assert!(found.0[rows..].iter().flatten().all(|&value| value == 0.0));
                }
            }
        }
    }
}
