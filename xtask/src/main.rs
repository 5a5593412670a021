//! `cargo xtask`: set-up, the first run and the checks, each in one command on a fresh machine.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command line, and talks to people")]
#![expect(clippy::disallowed_methods, reason = "people want to know how long things take")]

use std::process::ExitCode;

use shell::Outcome;

mod setup;
mod run;
mod test;
mod libtorch;
mod server;
mod wordnet;
mod shell;

const HELP: &str = "\
cargo xtask setup               put a CPU libtorch where the build finds it (0.5 GB, once for all checkouts)
cargo xtask run PIPELINE [...]  set up, build, and run `pairloom run PIPELINE [...]`
cargo xtask test                set up, then everything that CI checks: format, lints, documentation, tests
cargo xtask wordnet FOLDER      make the tables in data/wordnet/ again, from the database files of WordNet 3.0

Set-up needs Python 3 with pip and a C++ compiler. A LIBTORCH of your own is respected.";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(|argument| argument.to_string_lossy()).collect();
    let outcome: Outcome<ExitCode> = match words.iter().map(AsRef::as_ref).collect::<Vec<&str>>().as_slice() {
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        ["setup"] => setup::setup().map(|()| ExitCode::SUCCESS),
        ["run", _, ..] => run::run(&arguments[1..]),
        ["run"] => Err(shell::Failure::usage("which pipeline? try `cargo xtask run pipelines/quickstart.toml`")),
        ["test"] => test::test().map(|()| ExitCode::SUCCESS),
        ["wordnet", folder] => wordnet::wordnet(folder.as_ref()).map(|()| ExitCode::SUCCESS),
        ["wordnet"] => {
            Err(shell::Failure::usage("which folder? it must hold `index.noun` and its like, of WordNet 3.0"))
        }
        ["setup" | "test", extra, ..] => Err(shell::Failure::usage(format!("`{extra}` is not understood here"))),
        [other, ..] => Err(shell::Failure::usage(format!("there is no `cargo xtask {other}`\n\n{HELP}"))),
    };
    outcome.unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        failure.exit_code()
    })
}
