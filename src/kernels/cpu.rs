//! CPU feature detection, and dispatch to kernels compiled for several instruction sets.
//!
//! Every choice between instruction sets is made with these functions. The crates for this do not fit: `multiversion`
//! uses AVX-512 only on CPUs that also have its extensions of 2019, so older CPUs would use vectors of half the width;
//! `pulp` has no bf16 products.

/// True if the CPU has the foundation instructions of AVX-512.
#[must_use]
pub fn has_avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512f") && has_implied();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// True if the CPU has the older instructions that the compiler uses where it may use AVX. A virtual machine can hide them.
#[cfg(target_arch = "x86_64")]
fn has_implied() -> bool {
    is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("f16c") && is_x86_feature_detected!("fma")
}

/// True if the CPU has the bf16 products of AVX-512.
#[must_use]
pub fn has_avx512_bf16() -> bool {
    #[cfg(target_arch = "x86_64")]
    return has_avx512() && is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// True if the CPU has AVX2 and fused multiply-add.
#[must_use]
pub fn has_avx2() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2") && has_implied();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
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
