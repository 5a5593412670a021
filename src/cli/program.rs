//! Functions and facts of a program with this command line, passed in by its `main`.

use super::args::{CommonArgs, SqlArgs};
use super::cluster_args::ClusterCommand;
use super::console::Console;
use super::serve_args::ServeArgs;
use super::sql_requests::{QueryValue, TableDeclaration};
use super::torch::TorchFunctions;
use pairloom_base::error::{Error, Result};
use pairloom_store::Store;
use pairloom_store::record::StageRecord;

/// Program with this command line. What it lacks is handed over to another program.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Hash of the sources, `env!("PAIRLOOM_BUILD")`.
    pub build: &'static str,
    /// Functions that need libtorch.
    pub torch: Option<TorchFunctions>,
    /// Functions that need DataFusion.
    pub sql: Option<SqlFunctions>,
}

/// Functions that need DataFusion, passed in by `pairloom-sql`. A program that never constructs this is linked without
/// DataFusion.
#[derive(Debug, Clone, Copy)]
pub struct SqlFunctions {
    /// Command `sql`.
    pub sql: fn(&CommonArgs, &SqlArgs, Console) -> Result<()>,
    /// Command `serve`.
    pub serve: fn(&CommonArgs, &ServeArgs, Console) -> Result<()>,
    /// Command `cluster`.
    pub cluster: fn(&CommonArgs, &ClusterCommand, Console) -> Result<()>,
    /// Plans queries against tables without rows. Returns the error of each wrong query.
    pub check_queries: fn(&[TableDeclaration], &[String]) -> Result<Vec<Option<Error>>>,
    /// Evaluates queries for single numbers over the results of the stages of a run.
    pub query_values: fn(&Store, &[StageRecord], &[String]) -> Result<Vec<Result<QueryValue>>>,
}
