//! Sums of squared violations, Σ max(0, cₖ − iₖ)², in tiles: what a product is for cosine, this is for order embeddings
//! ([`order`](crate::order)).

use super::tile::{COLUMNS, ROWS, Tile};

/// Which vectors must not exceed the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// Σ max(0, column − row)².
    OfColumns,
    /// Σ max(0, row − column)².
    OfRows,
}

/// Adds the violations between a panel of the left factor, `rows` of whose rows count, and a panel of the right factor, both
/// packed in f32 with the same depth.
///
/// A value of the tile depends on its row and its column alone. All terms have one sign, so the relative error is that of
/// [`order_error`](crate::order::order_error).
pub fn violations(violation: Violation, rows: usize, left: &[u32], right: &[u32], out: &mut Tile) {
    #[cfg(target_arch = "x86_64")]
    if crate::cpu::has_avx512() {
        return avx512::violations(violation, rows, left, right, out);
    }
    portable(violation, rows, left, right, out);
}

fn portable(violation: Violation, rows: usize, left: &[u32], right: &[u32], out: &mut Tile) {
    for (a, b) in left.as_chunks::<ROWS>().0.iter().zip(right.as_chunks::<COLUMNS>().0) {
        for (sums, &a) in out.0.iter_mut().zip(a).take(rows) {
            for (sum, &b) in sums.iter_mut().zip(b) {
                let over = match violation {
                    Violation::OfColumns => f32::from_bits(b) - f32::from_bits(a),
                    Violation::OfRows => f32::from_bits(a) - f32::from_bits(b),
                };
                let over = if over > 0.0 { over } else { 0.0 };
                *sum += over * over;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "vector instructions of the processor, which was asked whether it has them")]
mod avx512 {
    use std::arch::x86_64::{
        _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_max_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
        _mm512_sub_ps,
    };

    use super::{COLUMNS, ROWS, Tile, Violation};

    pub(super) fn violations(violation: Violation, rows: usize, left: &[u32], right: &[u32], out: &mut Tile) {
        macro_rules! rows {
            ($($count:literal)*) => {
                match (violation, rows) {
                    // SAFETY: the caller has asked for the feature.
                    $((Violation::OfColumns, $count) => unsafe { sums::<$count, false>(left, right, out) },)*
                    // SAFETY: as above.
                    $((Violation::OfRows, $count) => unsafe { sums::<$count, true>(left, right, out) },)*
                    _ => {}
                }
            };
        }
        rows!(1 2 3 4 5 6 7 8 9 10 11 12);
    }

    #[target_feature(enable = "avx512f")]
    fn sums<const N: usize, const OF_ROWS: bool>(left: &[u32], right: &[u32], out: &mut Tile) {
        let zero = _mm512_setzero_ps();
        let mut sums = [[zero; 2]; N];
        for (a, b) in left.as_chunks::<ROWS>().0.iter().zip(right.as_chunks::<COLUMNS>().0) {
            // SAFETY: there are 32 values of 4 bytes.
            let first = unsafe { _mm512_loadu_ps(b.as_ptr().cast()) };
            // SAFETY: as above.
            let second = unsafe { _mm512_loadu_ps(b[16..].as_ptr().cast()) };
            for (sum, &a) in sums.iter_mut().zip(a) {
                let a = _mm512_set1_ps(f32::from_bits(a));
                for (sum, b) in sum.iter_mut().zip([first, second]) {
                    let over = if OF_ROWS { _mm512_sub_ps(a, b) } else { _mm512_sub_ps(b, a) };
                    let over = _mm512_max_ps(over, zero);
                    *sum = _mm512_fmadd_ps(over, over, *sum);
                }
            }
        }
        for (row, sums) in out.0.iter_mut().zip(sums) {
            let mut values = [0.0; COLUMNS];
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
    use crate::order::{Form, order};
    use crate::product::{Lanes, Left, Right};
    use crate::sample::Sample;

    /// Against the f64 definition, every number of rows, whole and cut panels, either side the captions.
    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    fn tiles_are_order_violations() {
        let mut sample = Sample::new(4, &[]);
        for depth in [1, 2, 7, 129] {
            for rows in 1..=ROWS {
                let mut vectors =
                    |count: usize| -> Vec<f32> { (0..count * depth).map(|_| sample.unit() as f32).collect() };
                let (a, b) = (vectors(rows), vectors(COLUMNS));
                let left = Left::from_rows(Lanes::F32, rows, depth, |i| &a[i * depth..][..depth]);
                let right = Right::from_columns(Lanes::F32, depth, COLUMNS, |j| &b[j * depth..][..depth]);
                for violation in [Violation::OfColumns, Violation::OfRows] {
                    let (mut found, mut plain) = (Tile::ZERO, Tile::ZERO);
                    violations(violation, rows, left.panel(0), right.panel(0), &mut found);
                    portable(violation, rows, left.panel(0), right.panel(0), &mut plain);
                    for i in 0..rows {
                        for j in 0..COLUMNS {
                            let (row, column) = (&a[i * depth..][..depth], &b[j * depth..][..depth]);
                            let wanted = match violation {
                                Violation::OfColumns => -order(row, column, Form::Squared),
                                Violation::OfRows => -order(column, row, Form::Squared),
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
