//! CPU feature detection, and dispatch to kernels compiled for several instruction sets.
//!
//! Every choice between instruction sets is made with these functions. The crates for this do not fit: `multiversion`
//! uses AVX-512 only on CPUs that also have its extensions of 2019, so older CPUs would use vectors of half the width;
//! `pulp` has no bf16 products.

/// True if the CPU has the foundation instructions of AVX-512.
#[must_use]
pub fn has_avx512() -> bool {
    Instructions::detect().are_avx512()
}

/// True if the CPU has the bf16 products of AVX-512.
#[must_use]
pub fn has_avx512_bf16() -> bool {
    Instructions::detect().are_avx512_bf16()
}

/// True if the CPU has AVX2 and fused multiply-add.
#[must_use]
pub fn has_avx2() -> bool {
    Instructions::detect().are_avx2()
}

/// Sets of instructions that kernels are compiled for, and whether the CPU has them.
#[derive(Debug, Clone, Copy)]
struct Instructions {
    avx512f: bool,
    avx512bf16: bool,
    avx2: bool,
    popcnt: bool,
    f16c: bool,
    fma: bool,
}

impl Instructions {
    #[cfg(target_arch = "x86_64")]
    fn detect() -> Self {
        Self {
            avx512f: is_x86_feature_detected!("avx512f"),
            avx512bf16: is_x86_feature_detected!("avx512bf16"),
            avx2: is_x86_feature_detected!("avx2"),
            popcnt: is_x86_feature_detected!("popcnt"),
            f16c: is_x86_feature_detected!("f16c"),
            fma: is_x86_feature_detected!("fma"),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn detect() -> Self {
        Self { avx512f: false, avx512bf16: false, avx2: false, popcnt: false, f16c: false, fma: false }
    }

    fn are_avx512(self) -> bool {
        self.avx512f && self.has_implied()
    }

    fn are_avx512_bf16(self) -> bool {
        self.are_avx512() && self.avx512bf16
    }

    fn are_avx2(self) -> bool {
        self.avx2 && self.has_implied()
    }

    /// True if the CPU has the older instructions that the compiler uses where it may use AVX. A virtual machine can hide
    /// them.
    fn has_implied(self) -> bool {
        self.popcnt && self.f16c && self.fma
    }
}

/// Asks the processor to bring values into the cache that are about to be read or written. For accesses that are far apart
/// in memory, which it does not foresee by itself.
pub fn prefetch(values: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    for line in values.chunks(16) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction reads no value, and no address makes it fail.
        #[expect(unsafe_code, reason = "the standard library has no other way to prefetch")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
}

/// Calls an `#[inline(always)]` function, compiled for AVX-512 if the CPU has it and for the baseline instruction set
/// otherwise. Both give the same bits: Rust never fuses a multiplication with an addition by itself.
macro_rules! widest {
    ($function:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f")]
        fn wide($($argument: $type),*) $(-> $result)? {
            $function($($argument),*)
        }
        #[cfg(target_arch = "x86_64")]
        if $crate::cpu::has_avx512() {
            // SAFETY: the CPU has the instructions, as checked above.
            #[expect(unsafe_code, reason = "vector instructions, called after the CPU was checked for them")]
            return unsafe { wide($($argument),*) };
        }
        $function($($argument),*)
    }};
}
pub(crate) use widest;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_for_avx_need_the_older_instructions_too() {
        let all = Instructions { avx512f: true, avx512bf16: true, avx2: true, popcnt: true, f16c: true, fma: true };
        let found = |set: Instructions| [set.are_avx512(), set.are_avx512_bf16(), set.are_avx2()];
        assert_eq!(found(all), [true; 3]);
        for hidden in [
            Instructions { popcnt: false, ..all },
            Instructions { f16c: false, ..all },
            Instructions { fma: false, ..all },
        ] {
            assert_eq!(found(hidden), [false; 3], "{hidden:?}");
        }
        assert_eq!(found(Instructions { avx512f: false, ..all }), [false, false, true]);
        assert_eq!(found(Instructions { avx512bf16: false, ..all }), [true, false, true]);
        assert_eq!(found(Instructions { avx2: false, ..all }), [true, true, false]);
    }
}
