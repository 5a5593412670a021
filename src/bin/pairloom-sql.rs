//! Program `pairloom-sql`: the command line of `pairloom` with DataFusion, Flight SQL and the cluster, which queries need.

fn main() -> std::process::ExitCode {
    pairloom::sql_program::main(env!("PAIRLOOM_BUILD"))
}
