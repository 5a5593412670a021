//! Program `pairloom`: all commands, without libtorch. To run stages that compute with tensors it replaces itself by
//! `pairloom-torch` (`exec`).

fn main() -> std::process::ExitCode {
    pairloom::cli::main(None)
}
