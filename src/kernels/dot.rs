//! Dot product that defines exact scores. [`product_error_bound`](super::product::product_error_bound) bounds the
//! error of the faster products.

/// Partial sums of a dot product, so that the compiler can use vector instructions.
const LANES: usize = 8;

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
    let mut sums = [0.0f64; LANES];
    let (a_blocks, b_blocks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let blocks = a.len().min(b.len()) / LANES * LANES;
    for (a, b) in a_blocks.zip(b_blocks) {
        for lane in 0..LANES {
            sums[lane] += f64::from(a[lane]) * f64::from(b[lane]);
        }
    }
    finish_sum(&sums, &a[blocks..], &b[blocks..])
}

/// Sums the lanes and the products of the remaining values.
#[expect(clippy::cast_possible_truncation, reason = "a score is the f32 nearest to the sum")]
fn finish_sum(sums: &[f64; LANES], a_rest: &[f32], b_rest: &[f32]) -> f32 {
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

    use super::{LANES, finish_sum};
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
        let (blocks, rest) = a[..width].as_chunks::<LANES>();
        let others: [(&[[f32; LANES]], &[f32]); N] = std::array::from_fn(|n| others[n][..width].as_chunks::<LANES>());
        let mut sums = [_mm512_setzero_pd(); N];
        for (i, block) in blocks.iter().enumerate() {
            let block = wide(block);
            for n in 0..N {
                sums[n] = _mm512_fmadd_pd(block, wide(&others[n].0[i]), sums[n]);
            }
        }
        for n in 0..N {
            let mut lanes = [0.0; LANES];
            // SAFETY: there are 8 lanes.
            unsafe { _mm512_storeu_pd(lanes.as_mut_ptr(), sums[n]) };
            scores.push(finish_sum(&lanes, rest, others[n].1));
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn wide(values: &[f32; LANES]) -> __m512d {
        // SAFETY: there are 8 values.
        _mm512_cvtps_pd(unsafe { _mm256_loadu_ps(values.as_ptr()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

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
