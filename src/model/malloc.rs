//! Settings of the C library's memory allocator.

use std::sync::Once;

/// Makes glibc keep up to 1 GiB of freed memory instead of returning it to the system.
///
/// A training step allocates some hundred megabytes in many pieces; getting them from the system again, page by page,
/// took a fifth of its time. Without glibc nothing happens.
pub fn keep_freed_memory() {
    static ONCE: Once = Once::new();
    ONCE.call_once(keep);
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "glibc's only interface for this is a C function")]
fn keep() {
    use std::ffi::c_int;

    /// Largest number of free bytes at the end of the heap that is kept.
    const TRIM_THRESHOLD: c_int = -1;
    /// Smallest allocation that always comes from the system, at most 32 MiB.
    const MMAP_THRESHOLD: c_int = -3;
    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }
    for (parameter, value) in [(TRIM_THRESHOLD, 1 << 30), (MMAP_THRESHOLD, 32 << 20)] {
        // SAFETY: the function accepts any numbers, and changes nothing for those that it does not know.
        let _ = unsafe { mallopt(parameter, value) };
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn keep() {}

/// Returns freed memory to the system, for work whose pieces are far apart in time. Without glibc nothing happens.
pub fn return_freed_memory() {
    trim();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "glibc's only interface for this is a C function")]
fn trim() {
    unsafe extern "C" {
        fn malloc_trim(keep: usize) -> std::ffi::c_int;
    }
    // SAFETY: the function may be called at any time, from any thread.
    let _ = unsafe { malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}
