//! Program `pairloom-sql`: the command line of `pairloom` with the commands `sql`, `serve` and `cluster`, and answers to
//! requests of the other programs.
//!
//! `serve.rs` alone uses Flight SQL, and `cluster.rs` alone the cluster.

mod answer;
mod cluster;
mod queries;
mod query_output;
mod serve;
mod shell;
mod sql;
mod stdin_end;

use std::process::ExitCode;

use crate::cli::sql_requests::ANSWER_REQUEST;
use crate::cli::{Program, SqlFunctions, main as cli};
use crate::runtime::set_build;

/// Runs the command line, or answers a request. `build` is the hash of the sources, `env!("PAIRLOOM_BUILD")`.
#[must_use]
pub fn main(build: &'static str) -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == ANSWER_REQUEST) {
        set_build(build);
        return answer::answer();
    }
    let sql = SqlFunctions {
        sql: sql::sql,
        serve: serve::serve,
        cluster: cluster::cluster,
        check_queries: queries::check_queries,
        query_values: queries::query_values,
    };
    cli(&Program { build, torch: None, sql: Some(sql) })
}
