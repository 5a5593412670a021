//! Instructions of AVX-512 that Miri lacks, so that it runs the code around them. Elsewhere they are the CPU's.

#[cfg(not(miri))]
pub use std::arch::x86_64::{_mm512_cmp_ps_mask, _mm512_cvtps_pd, _mm512_dpbf16_ps, _mm512_max_ps};

#[cfg(miri)]
pub use by_lane::{_mm512_cmp_ps_mask, _mm512_cvtps_pd, _mm512_dpbf16_ps, _mm512_max_ps};

/// The same instructions on arrays, for ordinary numbers.
#[cfg(miri)]
#[expect(unsafe_code, reason = "vectors are read as arrays of the same size")]
mod by_lane {
    use std::arch::x86_64::{__m256, __m512, __m512bh, __m512d, _CMP_GE_OQ, _CMP_GT_OQ};
    use std::array::from_fn;

    /// Lanes of a vector.
    fn lanes(vector: __m512) -> [f32; 16] {
        // SAFETY: both types are 64 bytes of any value.
        unsafe { std::mem::transmute(vector) }
    }

    /// Maximum of each lane.
    #[target_feature(enable = "avx512f")]
    pub fn _mm512_max_ps(a: __m512, b: __m512) -> __m512 {
        let (a, b) = (lanes(a), lanes(b));
        let largest: [f32; 16] = from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] });
        // SAFETY: both types are 64 bytes of any value.
        unsafe { std::mem::transmute(largest) }
    }

    /// Bits of the lanes for which a comparison holds.
    #[target_feature(enable = "avx512f")]
    pub fn _mm512_cmp_ps_mask<const COMPARISON: i32>(a: __m512, b: __m512) -> u16 {
        let holds = |(a, b): (f32, f32)| match COMPARISON {
            _CMP_GE_OQ => a >= b,
            _CMP_GT_OQ => a > b,
            other => unreachable!("comparison {other}"),
        };
        lanes(a).into_iter().zip(lanes(b)).rev().fold(0, |bits, pair| bits << 1 | u16::from(holds(pair)))
    }

    /// Values in twice the precision.
    #[target_feature(enable = "avx512f")]
    pub fn _mm512_cvtps_pd(values: __m256) -> __m512d {
        // SAFETY: both types are 32 bytes of any value.
        let values: [f32; 8] = unsafe { std::mem::transmute(values) };
        // SAFETY: both types are 64 bytes of any value.
        unsafe { std::mem::transmute(values.map(f64::from)) }
    }

    /// Sums and products of pairs of bf16: the upper one is added first.
    #[target_feature(enable = "avx512f")]
    pub fn _mm512_dpbf16_ps(sums: __m512, a: __m512bh, b: __m512bh) -> __m512 {
        // SAFETY: both types are 64 bytes of any value.
        let [a, b]: [[u32; 16]; 2] = [a, b].map(|pairs| unsafe { std::mem::transmute(pairs) });
        let [low, high] = [|pair: u32| f32::from_bits(pair << 16), |pair| f32::from_bits(pair & 0xffff_0000)];
        let sums = lanes(sums);
        let sums: [f32; 16] = from_fn(|i| low(a[i]).mul_add(low(b[i]), high(a[i]).mul_add(high(b[i]), sums[i])));
        // SAFETY: both types are 64 bytes of any value.
        unsafe { std::mem::transmute(sums) }
    }
}
