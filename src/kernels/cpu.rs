//! Dispatch on the processor's instructions: tests for them, and kernels compiled for more than one kind of processor.
//!
//! All choices between processors go through here. Not by the crates for it: `multiversion` takes AVX-512 only where its
//! extensions of 2019 are there too, and older processors would fall back to half of the width; `pulp` has no bf16 products.

/// True if the processor has the foundation instructions of AVX-512.
#[must_use]
pub fn has_avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512f");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// True if the processor has the bf16 products of AVX-512.
#[must_use]
pub fn has_avx512_bf16() -> bool {
    #[cfg(target_arch = "x86_64")]
    return has_avx512() && is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// True if the processor has AVX2 and fused multiplications and additions.
#[must_use]
pub fn has_avx2() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Calls a function that is `#[inline(always)]`, compiled for AVX-512 where the processor has it and for any processor
/// elsewhere. The same bits: Rust never fuses a multiplication with an addition by itself.
macro_rules! widest {
    ($function:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f")]
        fn wide($($argument: $type),*) $(-> $result)? {
            $function($($argument),*)
        }
        #[cfg(target_arch = "x86_64")]
        if $crate::cpu::has_avx512() {
            // SAFETY: the processor was asked whether it has the instructions.
            #[expect(unsafe_code, reason = "vector instructions of the processor, which was asked whether it has them")]
            return unsafe { wide($($argument),*) };
        }
        $function($($argument),*)
    }};
}
pub(crate) use widest;
