//! Matrix products with the widest vector instructions of the CPU, in tiles that fit its registers and caches.
//!
//! Both factors are first packed into panels ([`LeftFactor`], [`RightFactor`]) in the order in which [`add_product`]
//! reads them: Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3), 2008.
//! Callers loop over tiles and process each tile while it is in the cache; a matrix product of a library does not allow
//! this. A value of a product depends on its row and its column only, not on how the loops are divided among threads.

use crate::cpu;

pub use error_bound::{NormBound, product_error_bound};
pub use pack::{ElementType, LeftFactor, RightFactor};

mod error_bound;
mod pack;

/// Rows of a tile. With [`TILE_COLUMNS`], its sums leave two registers for the right factor and some for the left
/// factor.
pub const TILE_ROWS: usize = 12;
/// Columns of a tile: two vectors of AVX-512.
pub const TILE_COLUMNS: usize = 32;

/// Tile of a product, row-major.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub struct Tile(pub [[f32; TILE_COLUMNS]; TILE_ROWS]);

impl Tile {
    /// Tile of zeros.
    pub const ZERO: Self = Self([[0.0; TILE_COLUMNS]; TILE_ROWS]);
}

/// Returns true if the CPU has AVX-512 instructions for products of this element type. Without them [`add_product`] is
/// correct, but slower. In f32 it then uses AVX2 if available, at half the speed and with the same bits.
#[must_use]
pub fn has_avx512(element_type: ElementType) -> bool {
    match element_type {
        ElementType::F32 => cpu::has_avx512(),
        ElementType::Bf16 => cpu::has_avx512_bf16(),
    }
}

/// Adds the product of the first `rows` rows of a panel of the left factor and a panel of the right factor to a tile.
/// Both are packed with the same element type and the same depth.
pub fn add_product(element_type: ElementType, rows: usize, left: &[u32], right: &[u32], out: &mut Tile) {
    #[cfg(target_arch = "x86_64")]
    if has_avx512(element_type) {
        return avx512::add_product(element_type, rows, left, right, out);
    }
    #[cfg(target_arch = "x86_64")]
    if element_type == ElementType::F32 && cpu::has_avx2() {
        return avx2::add_product(rows, left, right, out);
    }
    portable(element_type, rows, left, right, out);
}

/// Portable version of [`add_product`], and reference of its tests. Pairs of bf16 products are summed before they are
/// added, as by the instruction of the CPU, but with other roundings.
fn portable(element_type: ElementType, rows: usize, left: &[u32], right: &[u32], out: &mut Tile) {
    let halves = |pair: u32| (f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000));
    for (a, b) in left.as_chunks::<TILE_ROWS>().0.iter().zip(right.as_chunks::<TILE_COLUMNS>().0) {
        for (sums, &a) in out.0.iter_mut().zip(a).take(rows) {
            for (sum, &b) in sums.iter_mut().zip(b) {
                *sum += match element_type {
                    ElementType::F32 => f32::from_bits(a) * f32::from_bits(b),
                    ElementType::Bf16 => {
                        let ((a0, a1), (b0, b1)) = (halves(a), halves(b));
                        a0 * b0 + a1 * b1
                    }
                };
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "vector instructions that the CPU is checked to support")]
mod avx512 {
    use std::arch::x86_64::{
        __m512, __m512bh, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_epi32, _mm512_set1_ps, _mm512_storeu_ps,
    };

    use super::{ElementType, TILE_COLUMNS, TILE_ROWS, Tile};
    use crate::vector_instructions::_mm512_dpbf16_ps;

    pub(super) fn add_product(element_type: ElementType, rows: usize, left: &[u32], right: &[u32], out: &mut Tile) {
        macro_rules! rows {
            ($($count:literal)*) => {
                match (element_type, rows) {
                    // SAFETY: the caller has checked for the features.
                    $((ElementType::F32, $count) => unsafe { f32s::<$count>(left, right, out) },)*
                    // SAFETY: as above.
                    $((ElementType::Bf16, $count) => unsafe { bf16s::<$count>(left, right, out) },)*
                    _ => {}
                }
            };
        }
        rows!(1 2 3 4 5 6 7 8 9 10 11 12);
    }

    #[target_feature(enable = "avx512f")]
    fn f32s<const N: usize>(left: &[u32], right: &[u32], out: &mut Tile) {
        let mut sums = read::<N>(out);
        for (a, b) in left.as_chunks::<TILE_ROWS>().0.iter().zip(right.as_chunks::<TILE_COLUMNS>().0) {
            let [b0, b1] = pair(b);
            for (sum, &a) in sums.iter_mut().zip(a) {
                let a = _mm512_set1_ps(f32::from_bits(a));
                *sum = [_mm512_fmadd_ps(a, b0, sum[0]), _mm512_fmadd_ps(a, b1, sum[1])];
            }
        }
        write(sums, out);
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    fn bf16s<const N: usize>(left: &[u32], right: &[u32], out: &mut Tile) {
        let mut sums = read::<N>(out);
        for (a, b) in left.as_chunks::<TILE_ROWS>().0.iter().zip(right.as_chunks::<TILE_COLUMNS>().0) {
            let [b0, b1] = pair(b);
            let (b0, b1) = (bits(b0), bits(b1));
            for (sum, &a) in sums.iter_mut().zip(a) {
                let a = _mm512_set1_epi32(a.cast_signed());
                // SAFETY: both types are 64 bytes of any value.
                let a: __m512bh = unsafe { std::mem::transmute(a) };
                *sum = [_mm512_dpbf16_ps(sum[0], a, b0), _mm512_dpbf16_ps(sum[1], a, b1)];
            }
        }
        write(sums, out);
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn bits(values: __m512) -> __m512bh {
        // SAFETY: both types are 64 bytes of any value.
        unsafe { std::mem::transmute(values) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn pair(values: &[u32; TILE_COLUMNS]) -> [__m512; 2] {
        let [a, b] = [&values[..16], &values[16..]];
        // SAFETY: there are 16 values of 4 bytes.
        [unsafe { _mm512_loadu_ps(a.as_ptr().cast()) }, unsafe { _mm512_loadu_ps(b.as_ptr().cast()) }]
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn read<const N: usize>(tile: &Tile) -> [[__m512; 2]; N] {
        std::array::from_fn(|i| {
            let row = &tile.0[i];
            // SAFETY: a row has 32 values.
            [unsafe { _mm512_loadu_ps(row.as_ptr()) }, unsafe { _mm512_loadu_ps(row[16..].as_ptr()) }]
        })
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn write<const N: usize>(sums: [[__m512; 2]; N], tile: &mut Tile) {
        for (row, sums) in tile.0.iter_mut().zip(sums) {
            // SAFETY: a row has 32 values.
            unsafe { _mm512_storeu_ps(row.as_mut_ptr(), sums[0]) };
            // SAFETY: as above.
            unsafe { _mm512_storeu_ps(row[16..].as_mut_ptr(), sums[1]) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "vector instructions that the CPU is checked to support")]
mod avx2 {
    use std::arch::x86_64::{__m256, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_storeu_ps};

    use super::{TILE_COLUMNS, TILE_ROWS, Tile};

    /// Number of rows whose sums are in registers together.
    const GROUP: usize = 3;
    /// Number of vectors of a row.
    const VECTORS: usize = TILE_COLUMNS / 8;

    pub(super) fn add_product(rows: usize, left: &[u32], right: &[u32], out: &mut Tile) {
        for first in (0..rows).step_by(GROUP) {
            // Rows beyond `rows` are summed too, but dropped.
            let mut sums = [[0.0; TILE_COLUMNS]; GROUP];
            sums.copy_from_slice(&out.0[first..first + GROUP]);
            // SAFETY: the caller has checked for the features.
            unsafe { group(first, left, right, &mut sums) };
            let count = GROUP.min(rows - first);
            out.0[first..first + count].copy_from_slice(&sums[..count]);
        }
    }

    #[target_feature(enable = "avx2,fma")]
    fn group(first: usize, left: &[u32], right: &[u32], out: &mut [[f32; TILE_COLUMNS]; GROUP]) {
        let mut sums: [[__m256; VECTORS]; GROUP] =
            std::array::from_fn(|i| std::array::from_fn(|v| load(&out[i].as_chunks().0[v])));
        for (a, b) in left.as_chunks::<TILE_ROWS>().0.iter().zip(right.as_chunks::<TILE_COLUMNS>().0) {
            let a: [__m256; GROUP] = std::array::from_fn(|i| _mm256_set1_ps(f32::from_bits(a[first + i])));
            for v in 0..VECTORS {
                // SAFETY: there are 8 values of 4 bytes.
                let b = unsafe { _mm256_loadu_ps(b[v * 8..v * 8 + 8].as_ptr().cast()) };
                for i in 0..GROUP {
                    sums[i][v] = _mm256_fmadd_ps(a[i], b, sums[i][v]);
                }
            }
        }
        for (row, sums) in out.iter_mut().zip(sums) {
            for (values, sum) in row.as_chunks_mut::<8>().0.iter_mut().zip(sums) {
                // SAFETY: there are 8 values.
                unsafe { _mm256_storeu_ps(values.as_mut_ptr(), sum) };
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(values: &[f32; 8]) -> __m256 {
        // SAFETY: there are 8 values.
        unsafe { _mm256_loadu_ps(values.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    fn random(seed: u64, count: usize) -> Vec<f32> {
        let mut rng = Rng::new(seed, &[]);
        (0..count).map(|_| (2.0 * rng.uniform() - 1.0) as f32).collect()
    }

    /// AVX2 gives the same bits: sums are along the depth in the same order, with one rounding for each step.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn avx2_gives_the_bits_of_avx512() {
        if !has_avx512(ElementType::F32) || !cpu::has_avx2() {
            test_data::impossible("this CPU has no AVX-512");
            return;
        }
        const DEPTHS: &[usize] = if cfg!(miri) { &[1, 3] } else { &[1, 7, 300] };
        for &depth in DEPTHS {
            for rows in 1..=TILE_ROWS {
                let (a, b) = (random(1, rows * depth), random(2, depth * TILE_COLUMNS));
                let left = LeftFactor::from_rows(ElementType::F32, rows, depth, |i| &a[i * depth..][..depth]);
                let right = RightFactor::from_rows(ElementType::F32, depth, TILE_COLUMNS, |k| {
                    &b[k * TILE_COLUMNS..][..TILE_COLUMNS]
                });
                let (mut wide, mut narrow) =
                    (Tile([[0.5; TILE_COLUMNS]; TILE_ROWS]), Tile([[0.5; TILE_COLUMNS]; TILE_ROWS]));
                add_product(ElementType::F32, rows, left.panel(0), right.panel(0), &mut wide);
                avx2::add_product(rows, left.panel(0), right.panel(0), &mut narrow);
                assert_eq!(wide.0, narrow.0, "{rows}x{depth}");
            }
        }
    }

    /// Compares with a product in f64, for every number of rows, full and partial panels, even and odd depths.
    #[test]
    fn tiles_are_products() {
        const DEPTHS: &[usize] = if cfg!(miri) { &[1, 3] } else { &[1, 2, 7, 64, 129] };
        for (element_type, error) in [(ElementType::F32, 1e-5), (ElementType::Bf16, 0.1)] {
            for &depth in DEPTHS {
                for rows in (1..=TILE_ROWS).step_by(if cfg!(miri) { 11 } else { 1 }) {
                    let (a, b) = (random(1, rows * depth), random(2, depth * TILE_COLUMNS));
                    let left = LeftFactor::from_rows(element_type, rows, depth, |i| &a[i * depth..][..depth]);
                    let right = RightFactor::from_rows(element_type, depth, TILE_COLUMNS, |k| {
                        &b[k * TILE_COLUMNS..][..TILE_COLUMNS]
                    });
                    let (mut found, mut plain) =
                        (Tile([[1.0; TILE_COLUMNS]; TILE_ROWS]), Tile([[1.0; TILE_COLUMNS]; TILE_ROWS]));
                    add_product(element_type, rows, left.panel(0), right.panel(0), &mut found);
                    portable(element_type, rows, left.panel(0), right.panel(0), &mut plain);
                    for i in 0..TILE_ROWS {
                        for j in 0..TILE_COLUMNS {
                            let product = |k: usize| f64::from(a[i * depth + k]) * f64::from(b[k * TILE_COLUMNS + j]);
                            let expected = 1.0 + if i < rows { (0..depth).map(product).sum::<f64>() } else { 0.0 };
                            let got = f64::from(found.0[i][j]);
                            assert!(
                                (got - expected).abs() < error,
                                "{element_type:?} {rows}x{depth} ({i}, {j}): {got}, {expected}"
                            );
                            let plain = f64::from(plain.0[i][j]);
                            assert!(
                                (got - plain).abs() < 1e-5,
                                "{element_type:?} {rows}x{depth}: {got}, portable {plain}"
                            );
                        }
                    }
                }
            }
        }
    }
}
