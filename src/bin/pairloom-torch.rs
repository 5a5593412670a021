//! `pairloom-torch`: the same command line as `pairloom`, with libtorch linked, so that it can run stages.

use pairloom::engine::run::execute;

fn main() -> std::process::ExitCode {
    pairloom::cli::main(Some(execute))
}
