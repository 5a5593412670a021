//! Order similarity of order embeddings: the negative penalty for violating the order between an image and a caption,
//! the more abstract of the two (Vendrov, Kiros, Fidler, Urtasun, "Order-Embeddings of Images and Language", ICLR
//! 2016).
//!
//! [`order_similarity`] is the definition. Three faster implementations compute it in f32: [`add_violations`] in
//! tiles, for a search on the CPU; `model::products` of the main crate, for a search on a GPU; `model::similarity`
//! there, on the tensors of a batch, with the gradient. The error of the first two is at most
//! [`order_similarity_error`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::product::{NormBound, TILE_COLUMNS, TILE_ROWS, Tile};

/// Penalty for the violations max(0, caption − image). A score is its negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrderPenalty {
    /// The L2 norm; the score is −‖max(0, caption − image)‖₂ (the code of VSE++ and HAL).
    #[default]
    Norm,
    /// The sum of squares; the score is −Σ max(0, caption − image)² (the paper).
    Squared,
}

/// The score of an image and a caption, at most 0; it is 0 if no value of the caption exceeds that of the image.
///
/// A pure function of the two vectors, summed in f64 and rounded once to f32.
///
/// # Shapes
/// `image` and `caption`: `width`. If the lengths differ, the longer slice is truncated.
///
/// # Cost
/// `O(width)` time.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "a score is the f32 nearest to the sum")]
pub fn order_similarity(image: &[f32], caption: &[f32], penalty: OrderPenalty) -> f32 {
    let squares = image.iter().zip(caption).map(|(&x, &c)| {
        let violation = (f64::from(c) - f64::from(x)).max(0.0);
        violation * violation
    });
    let sum: f64 = squares.sum();
    let distance = match penalty {
        OrderPenalty::Norm => sum.sqrt(),
        OrderPenalty::Squared => sum,
    };
    // A difference, not a negation, so that the score of no violation is 0, not −0.
    0.0 - distance as f32
}

/// A bound on `|s − order_similarity(image, caption)|`, where `s` is the same score computed in f32, summed in any
/// order.
///
/// All terms of the sum have the same sign, so its relative error is at most γ = (n + 4)·u / (1 − (n + 4)·u) with
/// `u = 2⁻²⁴`: one rounding for the difference, counted twice, one for the square, `n` for the sum, and one for
/// [`order_similarity`] (Higham, "Accuracy and Stability of Numerical Algorithms", chapter 3). The magnitude of a score
/// is at most ‖image‖ + ‖caption‖, or its square. The bound includes underflow.
///
/// If the vectors were rounded, with errors δimage and δcaption, the vector of violations changes by at most δ =
/// ‖δimage‖ + ‖δcaption‖ in norm, since max(0, ·) is 1-Lipschitz. The sum of squares changes by at most
/// 2·δ·(‖image‖ + ‖caption‖ + δ).
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "widths are far below 2⁵³")]
pub fn order_similarity_error(width: usize, penalty: OrderPenalty, image: NormBound, caption: NormBound) -> f64 {
    let n = width as f64;
    let nu = (n + 4.0) * f64::from(f32::EPSILON) / 2.0;
    if nu >= 1.0 {
        return f64::INFINITY;
    }
    let change = image.packing_error + caption.packing_error;
    let (relative, largest) = (nu / (1.0 - nu), image.norm + caption.norm + change);
    let underflow = n * f64::from(f32::MIN_POSITIVE);
    match penalty {
        OrderPenalty::Norm => relative * largest + underflow.sqrt() + change,
        OrderPenalty::Squared => relative * largest * largest + underflow + 2.0 * largest * change,
    }
}

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
/// of [`order_similarity_error`].
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
    use crate::product::{ElementType, LeftFactor, RightFactor};
    use crate::random::Rng;

    #[test]
    fn a_violation_is_the_excess_of_the_caption_over_the_image() {
        // Violations 0, 3 and 4.
        let (image, caption) = ([1.0, 2.0, 0.5], [0.5, 5.0, 4.5]);
        assert_eq!(order_similarity(&image, &caption, OrderPenalty::Norm), -5.0);
        assert_eq!(order_similarity(&image, &caption, OrderPenalty::Squared), -25.0);
        assert_eq!(order_similarity(&caption, &image, OrderPenalty::Norm), -0.5);
        assert_eq!(order_similarity(&image, &image, OrderPenalty::Norm), 0.0);
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    fn an_f32_sum_stays_within_the_bound() {
        let mut rng = Rng::new(6, &[]);
        for width in [1, 7, 64, 1024, 4099] {
            let mut random = || -> Vec<f32> { (0..width).map(|_| rng.uniform() as f32).collect() };
            let (image, caption) = (random(), random());
            for penalty in [OrderPenalty::Norm, OrderPenalty::Squared] {
                let sum = image.iter().zip(&caption).fold(0.0f32, |sum, (x, c)| sum + (c - x).max(0.0).powi(2));
                let got = if penalty == OrderPenalty::Norm { -sum.sqrt() } else { -sum };
                let bound = order_similarity_error(
                    width,
                    penalty,
                    NormBound::of_packed(ElementType::F32, &image),
                    NormBound::of_packed(ElementType::F32, &caption),
                );
                assert!(
                    (f64::from(got) - f64::from(order_similarity(&image, &caption, penalty))).abs() <= bound,
                    "{width}"
                );
            }
        }
    }

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
                            let expected = match violation {
                                OrderViolation::ColumnsExceedRows => {
                                    -order_similarity(row, column, OrderPenalty::Squared)
                                }
                                OrderViolation::RowsExceedColumns => {
                                    -order_similarity(column, row, OrderPenalty::Squared)
                                }
                            };
                            for got in [found.0[i][j], plain.0[i][j]] {
                                assert!((got - expected).abs() <= 1e-5 * expected, "{rows}x{depth} ({i}, {j}): {got}");
                            }
                        }
                    }
                    assert!(found.0[rows..].iter().flatten().all(|&value| value == 0.0));
                }
            }
        }
    }
}
