//! `cargo xtask run PIPELINE`: from a fresh machine to results in one command.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::setup;
use crate::shell::{self, Failure, Outcome, say};

/// Sets up, builds both programs, and becomes `pairloom run` with these arguments.
pub(crate) fn run(arguments: &[OsString]) -> Outcome<ExitCode> {
    setup::setup()?;
    // Cargo puts programs of one profile into one folder, wherever that is configured to be.
    let xtask = std::env::current_exe().map_err(|error| Failure::new(format!("who am I? {error}")))?;
    let pairloom = xtask.with_file_name("pairloom");
    if !pairloom.exists() {
        say("building Pairloom; the first time this takes about 7 minutes on two cores");
    }
    shell::execute(&mut shell::cargo(["build", "--package", "pairloom", "--bins"])?)?;
    become_program(Command::new(pairloom).arg("run").args(arguments))
}

/// Replaces this process, so that signals, standard streams and the exit code are the program's own.
fn become_program(command: &mut Command) -> Outcome<ExitCode> {
    use std::os::unix::process::CommandExt;
    let error = command.exec();
    Err(Failure::new(format!("cannot start {}: {error}", shell::display(command))))
}
