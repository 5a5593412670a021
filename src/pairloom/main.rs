//! Program `pairloom`: all commands, without libtorch and DataFusion. To run stages that compute with tensors it replaces
//! itself by `pairloom-torch` (`exec`), for queries by `pairloom-sql`.

use pairloom_cli::{Program, main as cli};

fn main() -> std::process::ExitCode {
    cli(&Program { build: env!("PAIRLOOM_BUILD"), torch: None, sql: None })
}
