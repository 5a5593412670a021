//! Handover from `pairloom` to `pairloom-torch` by `exec`.
//!
//! Loading libtorch takes 0.2 s, so `pairloom` is linked without it and replaces itself only if a stage has to run.
//! Both programs must be built from the same sources; a hash of the sources is compared at the handover.

use std::num::NonZeroUsize;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::error::{Error, Result};
use crate::runtime::BUILD;

/// Environment variable with the hash of the sources of the program that handed over.
const BUILD_VARIABLE: &str = "PAIRLOOM_HANDED_OVER_BY";
/// File name of the program with libtorch, in the folder of this program.
const TORCH_PROGRAM: &str = "pairloom-torch";

/// Environment variable of the C library, and its setting for pages of 2 MiB in large blocks of memory.
///
/// A search or a training step writes blocks of tens of megabytes, and touching the small pages of a new block for the first
/// time takes a third of a search in SQL. The C library reads the variable when a program starts.
const TUNABLES: &str = "GLIBC_TUNABLES";
const HUGE_PAGES: &str = "glibc.malloc.hugetlb=1";

/// Replaces this process by the same program with [`HUGE_PAGES`]. Returns if the variable is set already, or if the program
/// cannot be started again.
pub(super) fn restart_with_huge_pages() {
    if std::env::var_os(TUNABLES).is_none()
        && let Ok(here) = std::env::current_exe()
    {
        let mut program = Command::new(here);
        program.args(std::env::args_os().skip(1)).env(TUNABLES, HUGE_PAGES);
        // Without them the program is slower, and right.
        let _ = program.exec();
    }
}

/// Replaces this process by `pairloom-torch` with the same arguments. Returns only on failure.
pub(super) fn hand_over() -> Error {
    let here = match std::env::current_exe() {
        Ok(path) => path,
        Err(error) => return Error::internal(format!("cannot find the path of this program: {error}")),
    };
    let sibling = here.with_file_name(TORCH_PROGRAM);
    let mut program = Command::new(&sibling);
    program.args(std::env::args_os().skip(1)).env(BUILD_VARIABLE, BUILD);
    // Idle OpenMP threads would otherwise spin on cores that other stages use. The variable is read when the library
    // loads, so it must be set before.
    if std::env::var_os("OMP_WAIT_POLICY").is_none() {
        program.env("OMP_WAIT_POLICY", "PASSIVE");
    }
    // Each of glibc's arenas keeps what its threads have freed, and by default there are eight for each processor.
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
        let arenas = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
        program.env("MALLOC_ARENA_MAX", arenas.to_string());
    }
    if std::env::var_os(TUNABLES).is_none() {
        program.env(TUNABLES, HUGE_PAGES);
    }
    // One of the two workspaces with which cuBLAS gives the same bits each time. It reads the variable when it starts.
    if std::env::var_os("CUBLAS_WORKSPACE_CONFIG").is_none() {
        program.env("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
    }
    let error = program.exec();
    Error::usage(format!("cannot start `{}`, which runs stages: {error}", sibling.display()))
        .hint("build both programs: `cargo build --bins`")
}

/// Checks that a program that handed over to this one was built from the same sources.
///
/// # Errors
/// The builds differ.
pub(super) fn check_build() -> Result<()> {
    match std::env::var(BUILD_VARIABLE) {
        Ok(build) if build != BUILD => Err(Error::usage(format!(
            "`pairloom` and `{TORCH_PROGRAM}` come from different builds: {build} and {BUILD}"
        ))
        .hint("build both programs: `cargo build --bins`")),
        _ => Ok(()),
    }
}
