//! Keeps the memory of a step for the next one.

use std::sync::Once;

/// Tells the C library to keep what is freed, up to a gigabyte, instead of handing it back to the system: a step of training
/// uses some hundred megabytes in pieces of many, and to get them from the system anew, page by page, took a fifth of it.
///
/// Other memory allocators than glibc's are left alone.
pub fn keep_freed_memory() {
    static ONCE: Once = Once::new();
    ONCE.call_once(keep);
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "glibc's only interface for this is a C function")]
fn keep() {
    use std::ffi::c_int;

    /// Bytes free at the end of the heap that are kept.
    const TRIM_THRESHOLD: c_int = -1;
    /// Pieces from this size on, 32 MiB at most, are always the system's.
    const MMAP_THRESHOLD: c_int = -3;
    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }
    for (parameter, value) in [(TRIM_THRESHOLD, 1 << 30), (MMAP_THRESHOLD, 32 << 20)] {
        // SAFETY: the function takes any numbers, and refuses those it does not know; then nothing changes.
        let _ = unsafe { mallopt(parameter, value) };
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn keep() {}
