//! Program `pairloom-torch`: the command line of `pairloom` with libtorch linked, which running stages needs.

use pairloom::cli::{Program, TorchFunctions, TorchRendezvous, main as cli};
use pairloom::engine::ranks::run_follower;
use pairloom::engine::run::execute;

fn main() -> std::process::ExitCode {
    let torch = TorchFunctions { execute, run_follower, rendezvous: &TorchRendezvous };
    cli(&Program { build: env!("PAIRLOOM_BUILD"), torch: Some(torch), sql: None })
}
