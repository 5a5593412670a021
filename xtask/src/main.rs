//! `cargo xtask`: set-up, first run and checks, each in one command on a new machine.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command line program")]
#![expect(clippy::disallowed_methods, reason = "durations are printed")]

use std::process::ExitCode;

use shell::TaskResult;

mod setup;
mod run;
mod test;
mod dependencies;
mod book;
mod programs;
mod cached_folder;
mod libtorch;
mod python_packages;
mod wheel;
mod wordnet;
mod shell;

const HELP: &str = "\
cargo xtask setup               install a CPU libtorch for the build (0.5 GB, shared by all checkouts)
cargo xtask run PIPELINE [...]  set up, build, and run `pairloom run PIPELINE [...]`
cargo xtask build [...]         set up, and build all programs with all optimisations into target/release
cargo xtask test                set up, then run the checks of CI: format, dependencies, book, lints, documentation, tests
cargo xtask wheel               build the Python package into target/wheels, by maturin
cargo xtask wheel test          build it without optimisations, and run its tests in an empty environment
cargo xtask book                build the book of docs/ into target/book, by mdBook
cargo xtask wordnet FOLDER      regenerate data/wordnet/ from the database files of WordNet 3.0

Set-up needs Python 3 with pip and a C++ compiler. If LIBTORCH is set, that libtorch is used.";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(|argument| argument.to_string_lossy()).collect();
    let outcome: TaskResult<ExitCode> = match words.iter().map(AsRef::as_ref).collect::<Vec<&str>>().as_slice() {
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        ["setup"] => setup::setup().map(|()| ExitCode::SUCCESS),
        ["run", _, ..] => run::run(&arguments[1..]),
        ["run"] => Err(shell::TaskError::usage("no pipeline given; try `cargo xtask run pipelines/quickstart.toml`")),
        ["build", ..] => run::build(&words[1..]).map(|()| ExitCode::SUCCESS),
        ["test"] => test::test().map(|()| ExitCode::SUCCESS),
        ["book"] => book::build().map(|()| ExitCode::SUCCESS),
        ["wheel"] => wheel::build(false).map(|_| ExitCode::SUCCESS),
        ["wheel", "test"] => wheel::check().map(|()| ExitCode::SUCCESS),
        ["wordnet", folder] => wordnet::wordnet(folder.as_ref()).map(|()| ExitCode::SUCCESS),
        ["wordnet"] => Err(shell::TaskError::usage(
            "no folder given; it must contain the database files of WordNet 3.0, such as `index.noun`",
        )),
        ["setup" | "test" | "book" | "wheel", extra, ..] => {
            Err(shell::TaskError::usage(format!("unexpected argument `{extra}`")))
        }
        [other, ..] => Err(shell::TaskError::usage(format!("there is no `cargo xtask {other}`\n\n{HELP}"))),
    };
    outcome.unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        failure.exit_code()
    })
}
