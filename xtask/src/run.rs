//! `cargo xtask run PIPELINE`: set-up, build and run in one command; `cargo xtask build`: everything, optimised.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::setup;
use crate::shell::{self, TaskError, TaskResult, print_message};

/// Features of programs that are built only when all is built.
pub(crate) const ALL_FEATURES: [&str; 2] = ["--features", "pairloom-sql/flight,pairloom-sql/cluster"];

/// Sets up and builds all programs with all optimisations, into `target/release`. `arguments` are more of cargo's.
pub(crate) fn build(arguments: &[impl AsRef<str>]) -> TaskResult {
    setup::setup()?;
    let programs = ["pairloom", "pairloom-torch", "pairloom-sql"].into_iter().flat_map(|name| ["--package", name]);
    let arguments = arguments.iter().map(AsRef::as_ref);
    shell::execute(&mut shell::cargo(
        ["build", "--release"].into_iter().chain(programs).chain(ALL_FEATURES).chain(arguments),
    )?)
}

/// Sets up, builds the programs that run pipelines, and replaces this process by `pairloom run` with these arguments.
pub(crate) fn run(arguments: &[OsString]) -> TaskResult<ExitCode> {
    setup::setup()?;
    // Cargo puts all programs of a profile into the same folder.
    let xtask = std::env::current_exe()
        .map_err(|error| TaskError::new(format!("cannot find the path of this program: {error}")))?;
    let pairloom = xtask.with_file_name("pairloom");
    if !pairloom.exists() {
        print_message("building Pairloom; the first time this takes some minutes");
    }
    shell::execute(&mut shell::cargo(["build", "--package", "pairloom", "--package", "pairloom-torch"])?)?;
    exec(Command::new(pairloom).arg("run").args(arguments))
}

/// Replaces this process, so that signals, standard streams and exit code are those of the program.
fn exec(command: &mut Command) -> TaskResult<ExitCode> {
    use std::os::unix::process::CommandExt;
    let error = command.exec();
    Err(TaskError::new(format!("cannot start {}: {error}", shell::display(command))))
}
