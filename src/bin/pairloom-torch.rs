//! `pairloom-torch`: the same command line as `pairloom`, with libtorch linked, so that it can run stages.

use pairloom::cli::{Torch, TorchBoards, main as cli};
use pairloom::engine::ranks::follow;
use pairloom::engine::run::execute;

fn main() -> std::process::ExitCode {
    cli(Some(Torch { execute, follow, boards: &TorchBoards }))
}
