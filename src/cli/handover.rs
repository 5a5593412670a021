//! How `pairloom` becomes `pairloom-torch`.
//!
//! Loading libtorch takes 0.2 s, so the program that people type is linked without it, and replaces itself only when
//! there is a stage to run. Both are built from one library; a hash of its sources tells when they are not.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::error::{Error, Result};

/// The hash of the sources of this program, made by `build.rs`.
const BUILD: &str = env!("PAIRLOOM_BUILD");
/// Tells the program that takes over what it must have been built from.
const VARIABLE: &str = "PAIRLOOM_HANDED_OVER_BY";
/// The program with libtorch; it lies beside this one.
const SIBLING: &str = "pairloom-torch";

/// Replaces this program by its sibling, with the same arguments. Comes back only to say why it could not.
pub(super) fn hand_over() -> Error {
    let here = match std::env::current_exe() {
        Ok(path) => path,
        Err(error) => return Error::internal(format!("cannot find where this program lies: {error}")),
    };
    let sibling = here.with_file_name(SIBLING);
    let mut program = Command::new(&sibling);
    program.args(std::env::args_os().skip(1)).env(VARIABLE, BUILD);
    // Threads of OpenMP that wait for work would otherwise spin, on cores that other stages use. It is read when the
    // library loads, so this is the last moment.
    if std::env::var_os("OMP_WAIT_POLICY").is_none() {
        program.env("OMP_WAIT_POLICY", "PASSIVE");
    }
    // What it tells of closed connections is told in our words.
    if std::env::var_os("TORCH_CPP_LOG_LEVEL").is_none() {
        program.env("TORCH_CPP_LOG_LEVEL", "ERROR");
    }
    let error = program.exec();
    Error::usage(format!("cannot start `{}`, which runs stages: {error}", sibling.display()))
        .hint("build both programs: `cargo build --bins`")
}

/// Whether the program that handed over to this one, if any did, was built from the same sources.
///
/// # Errors
/// It was not.
pub(super) fn check_build() -> Result<()> {
    match std::env::var(VARIABLE) {
        Ok(build) if build != BUILD => {
            Err(Error::usage(format!("`pairloom` and `{SIBLING}` are of different builds: {build} and {BUILD}"))
                .hint("build both programs: `cargo build --bins`"))
        }
        _ => Ok(()),
    }
}
