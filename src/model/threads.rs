//! How many threads libtorch keeps busy.

use std::ffi::{c_char, c_int, c_void};

/// Makes libtorch compute in the calling thread alone, from now on; other threads are as they were.
///
/// For code that itself runs on every thread. Two stages, or two threads of one, that each let libtorch start a team of
/// threads make it wait at the end of every layer for threads that do not run: with other work on the machine a network
/// took three times the processor time.
///
/// `tch::set_num_threads` would set it for every thread that libtorch has not yet seen, training's among them, so OpenMP
/// is told instead. Without OpenMP in libtorch nothing happens.
#[expect(unsafe_code, reason = "OpenMP's only interface for this is a C function, which libtorch brings")]
pub fn stay_in_this_thread() {
    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    // libtorch sets a thread's count when it first sees the thread; let that be over.
    tch::get_num_threads();
    // SAFETY: the null handle stands for everything loaded, and the name ends with a zero byte.
    let function = unsafe { dlsym(std::ptr::null_mut(), c"omp_set_num_threads".as_ptr()) };
    if !function.is_null() {
        // SAFETY: a function of this name has this signature by the OpenMP standard.
        let set = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(c_int)>(function) };
        set(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the threads end within the test, and nobody looks for their names")]
    fn only_the_thread_that_asks_is_alone() {
        let count = || std::thread::spawn(tch::get_num_threads).join().unwrap();
        let before = count();
        let alone = std::thread::spawn(|| {
            stay_in_this_thread();
            tch::get_num_threads()
        });
        assert_eq!(alone.join().unwrap(), 1);
        assert_eq!(count(), before);
    }
}
