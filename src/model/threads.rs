//! Threads that compute with libtorch.

use std::ffi::{c_char, c_int, c_void};

use rayon::{ThreadPool, ThreadPoolBuilder};

use pairloom_base::error::{Error, Result};

/// Pool of `threads` threads, in each of which libtorch uses one thread.
///
/// Work of several callers is shared out among them, so a single caller keeps all of them busy.
///
/// # Errors
/// The system starts no more threads.
pub fn pool(threads: usize) -> Result<ThreadPool> {
    let builder =
        ThreadPoolBuilder::new().num_threads(threads.max(1)).thread_name(|number| format!("batches {number}"));
    let pool = builder.start_handler(|_| use_one_thread()).build();
    pool.map_err(|error| Error::stage(format!("cannot start {threads} threads: {error}")))
}

/// Makes libtorch use only the calling thread for calls from it, from now on. Other threads are not affected.
///
/// Code that already runs on every core uses this. If several threads each let libtorch start a team of threads, every
/// layer ends with a wait for threads that are not scheduled: on a busy machine a network took three times the CPU
/// time.
///
/// `tch::set_num_threads` would also affect every thread that libtorch has not yet seen, such as those of a training,
/// so this calls OpenMP. If libtorch was built without OpenMP, nothing happens.
#[expect(unsafe_code, reason = "OpenMP's only interface for this is a C function, which libtorch brings")]
pub fn use_one_thread() {
    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    // libtorch sets the count when it first sees a thread, so that must happen before.
    tch::get_num_threads();
    // SAFETY: the null handle means all loaded libraries, and the name ends with a zero byte.
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
    fn each_thread_of_a_pool_computes_alone() {
        let counts = pool(2).unwrap().broadcast(|_| tch::get_num_threads());
        assert_eq!(counts, [1, 1]);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the threads end within the test, and their names do not matter")]
    fn only_the_calling_thread_is_limited_to_one() {
        let count = || std::thread::spawn(tch::get_num_threads).join().unwrap();
        let before = count();
        let alone = std::thread::spawn(|| {
            use_one_thread();
            tch::get_num_threads()
        });
        assert_eq!(alone.join().unwrap(), 1);
        assert_eq!(count(), before);
    }
}
