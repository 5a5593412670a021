//! Program `pairloom-sql`: the command line of `pairloom` with the commands `sql`, `serve` and `cluster`, and answers to
//! requests of the other programs.
//!
//! `serve.rs` alone uses Flight SQL, and `cluster.rs` alone the cluster.

mod answer;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(not(feature = "cluster"))]
#[path = "no_cluster.rs"]
mod cluster;
#[cfg(any(feature = "cluster", feature = "flight"))]
mod process_memory;
#[cfg(feature = "flight")]
mod serve;
#[cfg(not(feature = "flight"))]
#[path = "no_serve.rs"]
mod serve;
mod shell;
mod sql;

use std::process::ExitCode;

use pairloom_base::error::silence_caught_panics;
use pairloom_base::runtime::set_build;
use pairloom_cli::sql_requests::ANSWER_REQUEST;
use pairloom_cli::{Program, SqlFunctions, main as cli};

fn main() -> ExitCode {
    let build = env!("PAIRLOOM_BUILD");
    if std::env::args_os().nth(1).is_some_and(|argument| argument == ANSWER_REQUEST) {
        set_build(build);
        silence_caught_panics();
        return answer::answer();
    }
    let sql = SqlFunctions {
        sql: sql::sql,
        serve: serve::serve,
        cluster: cluster::cluster,
        check_queries: answer::check_queries,
        query_values: answer::query_values,
    };
    cli(&Program { build, torch: None, sql: Some(sql) })
}
