//! Products, distances and norms of vectors of f32 or f64, in f64, and the dot product that defines exact scores,
//! [`dot`].
//!
//! With n values in each vector, and sums in f64:
//!
//! | function | formula |
//! |---|---|
//! | [`inner_product`] | Σ aᵢ·bᵢ |
//! | [`cosine_similarity`] | Σ aᵢ·bᵢ / (‖a‖·‖b‖) |
//! | [`l2_distance`] | √ Σ (aᵢ − bᵢ)² |
//! | [`l1_distance`] | Σ \|aᵢ − bᵢ\| |
//! | [`l2_norm`] | √ Σ aᵢ² |
//!
//! The order of a sum is fixed, so the bits do not depend on the machine. The products of f32 are exact in f64, so the
//! relative error of an inner product is below n·2⁻⁵³ of Σ \|aᵢ·bᵢ\|. Scores of a search are sums in another order,
//! rounded to f32 ([`dot`]).
//!
//! Vectors of two lengths are cut to the shorter one. Cost: O(n) time.

#![expect(clippy::inline_always, reason = "functions take the instructions of the function that they are in")]

use crate::cpu::widest;

/// Partial sums: four vectors of AVX-512, so that additions do not wait for each other.
const LANES: usize = 32;

/// Values of a vector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum VectorValues<'v> {
    /// Single precision.
    F32(&'v [f32]),
    /// Double precision.
    F64(&'v [f64]),
}

impl VectorValues<'_> {
    /// Number of values.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// The values in double precision.
    #[must_use]
    pub fn to_doubles(self) -> Vec<f64> {
        match self {
            Self::F32(values) => values.iter().copied().map(f64::from).collect(),
            Self::F64(values) => values.to_vec(),
        }
    }

    /// True if there are no values.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// Calls a generic function with the slices of two vectors, compiled for the widest instructions of the CPU.
macro_rules! for_both {
    ($function:ident, $a:expr, $b:expr) => {{
        fn singles(a: &[f32], b: &[f32]) -> f64 {
            widest!($function(a: &[f32], b: &[f32]) -> f64)
        }
        fn mixed(a: &[f32], b: &[f64]) -> f64 {
            widest!($function(a: &[f32], b: &[f64]) -> f64)
        }
        fn doubles(a: &[f64], b: &[f64]) -> f64 {
            widest!($function(a: &[f64], b: &[f64]) -> f64)
        }
        match ($a, $b) {
            (VectorValues::F32(a), VectorValues::F32(b)) => singles(a, b),
            (VectorValues::F32(a), VectorValues::F64(b)) | (VectorValues::F64(b), VectorValues::F32(a)) => mixed(a, b),
            (VectorValues::F64(a), VectorValues::F64(b)) => doubles(a, b),
        }
    }};
}

/// Inner product Σ aᵢ·bᵢ.
#[must_use]
pub fn inner_product(a: VectorValues<'_>, b: VectorValues<'_>) -> f64 {
    for_both!(sum_of_products, a, b)
}

/// Euclidean distance √ Σ (aᵢ − bᵢ)².
#[must_use]
pub fn l2_distance(a: VectorValues<'_>, b: VectorValues<'_>) -> f64 {
    for_both!(sum_of_squared_differences, a, b).sqrt()
}

/// Sum of absolute differences, Σ \|aᵢ − bᵢ\|.
#[must_use]
pub fn l1_distance(a: VectorValues<'_>, b: VectorValues<'_>) -> f64 {
    for_both!(sum_of_absolute_differences, a, b)
}

/// Euclidean norm √ Σ aᵢ².
#[must_use]
pub fn l2_norm(a: VectorValues<'_>) -> f64 {
    inner_product(a, a).sqrt()
}

/// Cosine of the angle between `a`, whose norm is `norm_of_a`, and `b`; `None` if one of them is 0.
#[must_use]
pub fn cosine_similarity(a: VectorValues<'_>, norm_of_a: f64, b: VectorValues<'_>) -> Option<f64> {
    let [product, squares] = product_and_squares(a, b);
    let norms = norm_of_a * squares.sqrt();
    (norms != 0.0).then(|| (product / norms).clamp(-1.0, 1.0))
}

/// Inner product of `a` and `b`, and that of `b` with itself, in one pass.
fn product_and_squares(a: VectorValues<'_>, b: VectorValues<'_>) -> [f64; 2] {
    fn singles(a: &[f32], b: &[f32]) -> [f64; 2] {
        widest!(sums_of_products(a: &[f32], b: &[f32]) -> [f64; 2])
    }
    fn of_singles(a: &[f64], b: &[f32]) -> [f64; 2] {
        widest!(sums_of_products(a: &[f64], b: &[f32]) -> [f64; 2])
    }
    match (a, b) {
        (VectorValues::F32(a), VectorValues::F32(b)) if a.len() == b.len() => singles(a, b),
        (VectorValues::F64(a), VectorValues::F32(b)) if a.len() == b.len() => of_singles(a, b),
        _ => [inner_product(a, b), inner_product(b, b)],
    }
}

#[inline(always)]
fn sum_of_products<A: Copy + Into<f64>, B: Copy + Into<f64>>(a: &[A], b: &[B]) -> f64 {
    sum(a, b, |a, b| a * b)
}

#[inline(always)]
fn sum_of_squared_differences<A: Copy + Into<f64>, B: Copy + Into<f64>>(a: &[A], b: &[B]) -> f64 {
    sum(a, b, |a, b| (a - b) * (a - b))
}

#[inline(always)]
fn sum_of_absolute_differences<A: Copy + Into<f64>, B: Copy + Into<f64>>(a: &[A], b: &[B]) -> f64 {
    sum(a, b, |a, b| (a - b).abs())
}

/// The sums of [`sum_of_products`] of `a` and `b`, and of `b` and `b`, with the same bits.
#[inline(always)]
fn sums_of_products<A: Copy + Into<f64>, B: Copy + Into<f64>>(a: &[A], b: &[B]) -> [f64; 2] {
    let (a_blocks, a_rest) = a.as_chunks::<LANES>();
    let (b_blocks, b_rest) = b.as_chunks::<LANES>();
    let (mut products, mut squares) = ([0.0f64; LANES], [0.0f64; LANES]);
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..LANES {
            let (a, b): (f64, f64) = (a[lane].into(), b[lane].into());
            products[lane] += a * b;
            squares[lane] += b * b;
        }
    }
    let rest = |a: f64, b: f64| a * b;
    let product_rest: f64 = a_rest.iter().zip(b_rest).map(|(&a, &b)| rest(a.into(), b.into())).sum();
    let square_rest: f64 = b_rest.iter().map(|&b| rest(b.into(), b.into())).sum();
    [products.iter().sum::<f64>() + product_rest, squares.iter().sum::<f64>() + square_rest]
}

/// Sum of a function of the values of both vectors.
#[inline(always)]
fn sum<A: Copy + Into<f64>, B: Copy + Into<f64>>(a: &[A], b: &[B], term: impl Fn(f64, f64) -> f64 + Copy) -> f64 {
    let width = a.len().min(b.len());
    let (a_blocks, a_rest) = a[..width].as_chunks::<LANES>();
    let (b_blocks, b_rest) = b[..width].as_chunks::<LANES>();
    let mut sums = [0.0f64; LANES];
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..LANES {
            sums[lane] += term(a[lane].into(), b[lane].into());
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(&a, &b)| term(a.into(), b.into())).sum();
    sums.iter().sum::<f64>() + rest
}

/// Partial sums of a dot product, so that the compiler can use vector instructions.
const DOT_LANES: usize = 8;

/// The score of two vectors: `Σ aᵢ·bᵢ`, summed in f64 and rounded once to f32.
///
/// A pure function of the two vectors: the products are exact in f64 and the order of the sum is fixed. So the bits do
/// not depend on the machine, the number of threads or the block size, and equal vectors get equal scores.
///
/// # Shapes
/// `a` and `b`: `width`. If the lengths differ, the longer slice is truncated.
///
/// # Cost
/// `O(width)` time.
#[must_use]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f64; DOT_LANES];
    let (a_blocks, b_blocks) = (a.chunks_exact(DOT_LANES), b.chunks_exact(DOT_LANES));
    let blocks = a.len().min(b.len()) / DOT_LANES * DOT_LANES;
    for (a, b) in a_blocks.zip(b_blocks) {
        for lane in 0..DOT_LANES {
            sums[lane] += f64::from(a[lane]) * f64::from(b[lane]);
        }
    }
    finish_sum(&sums, &a[blocks..], &b[blocks..])
}

/// Sums the lanes and the products of the remaining values.
#[expect(clippy::cast_possible_truncation, reason = "a score is the f32 nearest to the sum")]
fn finish_sum(sums: &[f64; DOT_LANES], a_rest: &[f32], b_rest: &[f32]) -> f32 {
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
    (sums.iter().sum::<f64>() + rest) as f32
}

/// Appends the scores of `a` with each of `others` to `scores`: the same bits as [`dot`], computed with AVX-512 if the
/// CPU has it, several scores at a time.
///
/// A fused multiply-add gives the same bits as the two steps of [`dot`], because the product of two f32 is exact in
/// f64.
///
/// # Shapes
/// `a` and all of `others`: `width`.
///
/// # Cost
/// `O(width)` time a score.
pub fn dot_products(a: &[f32], others: &[&[f32]], scores: &mut Vec<f32>) {
    #[cfg(target_arch = "x86_64")]
    if crate::cpu::has_avx512() {
        return avx512::dots(a, others, scores);
    }
    scores.extend(others.iter().map(|b| dot(a, b)));
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "vector instructions, called after the CPU was checked for them")]
mod avx512 {
    use std::arch::x86_64::{__m512d, _mm256_loadu_ps, _mm512_fmadd_pd, _mm512_setzero_pd, _mm512_storeu_pd};

    use super::{DOT_LANES, finish_sum};
    use crate::vector_instructions::_mm512_cvtps_pd;

    /// Number of scores computed together. The additions of one score depend on each other, so others fill the
    /// pipeline.
    const GROUP_SIZE: usize = 8;

    pub(super) fn dots(a: &[f32], others: &[&[f32]], scores: &mut Vec<f32>) {
        for group in others.chunks(GROUP_SIZE) {
            macro_rules! groups {
                ($($count:literal)*) => {
                    match group.len() {
                        // SAFETY: the caller has checked that the CPU has AVX-512.
                        $($count => unsafe { dot_group::<$count>(a, group, scores) },)*
                        _ => {}
                    }
                };
            }
            groups!(1 2 3 4 5 6 7 8);
        }
    }

    #[target_feature(enable = "avx512f")]
    fn dot_group<const N: usize>(a: &[f32], others: &[&[f32]], scores: &mut Vec<f32>) {
        let width = others.iter().map(|b| b.len()).fold(a.len(), usize::min);
        let (blocks, rest) = a[..width].as_chunks::<DOT_LANES>();
        let others: [(&[[f32; DOT_LANES]], &[f32]); N] =
            std::array::from_fn(|n| others[n][..width].as_chunks::<DOT_LANES>());
        let mut sums = [_mm512_setzero_pd(); N];
        for (i, block) in blocks.iter().enumerate() {
            let block = wide(block);
            for n in 0..N {
                sums[n] = _mm512_fmadd_pd(block, wide(&others[n].0[i]), sums[n]);
            }
        }
        for n in 0..N {
            let mut lanes = [0.0; DOT_LANES];
            // SAFETY: there are 8 lanes.
            unsafe { _mm512_storeu_pd(lanes.as_mut_ptr(), sums[n]) };
            scores.push(finish_sum(&lanes, rest, others[n].1));
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn wide(values: &[f32; DOT_LANES]) -> __m512d {
        // SAFETY: there are 8 values.
        _mm512_cvtps_pd(unsafe { _mm256_loadu_ps(values.as_ptr()) })
    }
}

#[cfg(test)]
mod tests {
    use super::VectorValues::{F32, F64};
    use super::*;
    use crate::random::Rng;

    /// By hand: (1, 2, 2) and (2, 0, 1) have the product 4, the norms 3 and √5, and the differences 1, 2, 1.
    #[test]
    fn values_by_hand_in_any_precision() {
        let (a, b) = ([1.0f32, 2.0, 2.0], [2.0f32, 0.0, 1.0]);
        let (wide_a, wide_b) = (a.map(f64::from), b.map(f64::from));
        for (a, b) in
            [(F32(&a), F32(&b)), (F32(&a), F64(&wide_b)), (F64(&wide_a), F32(&b)), (F64(&wide_a), F64(&wide_b))]
        {
            assert_eq!((inner_product(a, b), l1_distance(a, b), l2_norm(a)), (4.0, 4.0, 3.0));
            assert_eq!(l2_distance(a, b), 6.0f64.sqrt());
            let cosine = cosine_similarity(a, 3.0, b).expect("no vector is 0");
            assert!((cosine - 4.0 / (3.0 * 5.0f64.sqrt())).abs() < 1e-16);
        }
        assert_eq!(cosine_similarity(F32(&[0.0; 3]), 0.0, F32(&b)), None);
        assert_eq!(cosine_similarity(F32(&b), l2_norm(F32(&b)), F32(&[0.0; 3])), None);
    }

    /// Against sums in order, whose error is as small.
    #[test]
    fn long_vectors_have_the_sums_of_their_values() {
        const WIDTHS: &[usize] = if cfg!(miri) { &[0, 33] } else { &[0, 1, 31, 32, 33, 100, 1024] };
        for &width in WIDTHS {
            let mut rng = Rng::new(7, &[]);
            #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
            let mut vector = || -> Vec<f32> { (0..width).map(|_| (rng.uniform() * 2.0 - 1.0) as f32).collect() };
            let (a, b) = (vector(), vector());
            let pairs = || a.iter().zip(&b).map(|(&a, &b)| (f64::from(a), f64::from(b)));
            let close =
                |got: f64, expected: f64| assert!((got - expected).abs() < 1e-12, "{got} {expected} at {width}");
            close(inner_product(F32(&a), F32(&b)), pairs().map(|(a, b)| a * b).sum());
            close(l1_distance(F32(&a), F32(&b)), pairs().map(|(a, b)| (a - b).abs()).sum());
            close(l2_distance(F32(&a), F32(&b)).powi(2), pairs().map(|(a, b)| (a - b).powi(2)).sum());
            assert_eq!(cosine_similarity(F32(&a), l2_norm(F32(&a)), F32(&a)).is_some(), width > 0);
            // One pass has the bits of two, and a vector has those of its values in f64.
            let wide: Vec<f64> = a.iter().copied().map(f64::from).collect();
            for first in [F32(&a), F64(&wide)] {
                let two = [inner_product(F32(&a), F32(&b)), inner_product(F32(&b), F32(&b))];
                assert_eq!(product_and_squares(first, F32(&b)).map(f64::to_bits), two.map(f64::to_bits), "{width}");
                let distance = |a| [l2_distance(a, F32(&b)), l1_distance(a, F32(&b)), inner_product(a, F32(&b))];
                assert_eq!(distance(first).map(f64::to_bits), distance(F32(&a)).map(f64::to_bits), "{width}");
            }
        }
    }

    #[test]
    fn a_value_that_is_no_number_is_not_lost() {
        let mut a = vec![1.0f32; 40];
        a[37] = f32::NAN;
        assert!(inner_product(F32(&a), F32(&[1.0; 40])).is_nan());
        assert!(cosine_similarity(F32(&a), l2_norm(F32(&a)), F32(&[1.0; 40])).is_some_and(f64::is_nan));
    }

    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    fn vector(seed: u64, width: usize) -> Vec<f32> {
        let mut rng = Rng::new(seed, &[]);
        (0..width).map(|_| (rng.uniform() * 2.0 - 1.0) as f32).collect()
    }

    #[test]
    fn products_are_summed_in_f64() {
        assert_eq!(dot(&[], &[]), 0.0);
        assert_eq!(dot(&[1.0, 2.0, 3.0], &[4.0, -5.0, 6.0]), 12.0);
        assert_eq!(dot(&[1.0; 11], &[2.0; 11]), 22.0);
        // 2²⁴ + 1 is not representable in f32: an f32 sum loses the ones.
        assert_eq!(dot(&[16_777_216.0, 1.0, 1.0], &[1.0, 1.0, 1.0]), 16_777_218.0);
    }

    #[test]
    fn batched_products_have_the_bits_of_single_ones() {
        const WIDTHS: &[usize] = if cfg!(miri) { &[0, 1, 8, 25] } else { &[0, 1, 7, 8, 9, 64, 1023, 1024] };
        for &width in WIDTHS {
            for count in [0, 1, 3, 8, 9, 19] {
                let a = vector(1, width);
                let others: Vec<Vec<f32>> = (0..count).map(|i| vector(2 + i, width)).collect();
                let others: Vec<&[f32]> = others.iter().map(Vec::as_slice).collect();
                let mut scores = vec![0.5];
                dot_products(&a, &others, &mut scores);
                let plain: Vec<f32> = std::iter::once(0.5).chain(others.iter().map(|b| dot(&a, b))).collect();
                assert_eq!(scores, plain, "width {width}");
            }
        }
    }
}
