//! `pairloom`: everything but running stages, for which it becomes `pairloom-torch`. Must not link libtorch.

fn main() -> std::process::ExitCode {
    pairloom::cli::main(None)
}
