//! Command-line arguments of `serve`. Doc comments of fields are the help texts.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::cluster_args::ClusterChoiceArgs;
use super::run_choice_args::RunChoiceArgs;
use pairloom_base::runtime::NamedFile;

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Serve Flight SQL, for clients such as ADBC and JDBC. The port is 32010 by default; 0 means any free port.
    /// Without a token, only addresses of this machine
    #[arg(long, value_name = "ADDRESS", required = true, num_args = 0..=1, default_missing_value = "127.0.0.1:32010")]
    pub flight: SocketAddr,
    /// File with the token that clients need: at least 16 characters. Clients send it as `authorization: Bearer TOKEN`,
    /// or as the password of any user [default: the environment variable `PAIRLOOM_FLIGHT_TOKEN`]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificate of the server and its chain (PEM): connections are encrypted
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Memory of the groups and joins of one query, and as much again for its sorts. Sorts and groups that need more use
    /// temporary files, of 16 GiB at most; other queries fail. Values that a function computes are not counted:
    /// 256 MiB for one and 1 GiB for a batch of rows at most
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = super::units::parse_capacity)]
    pub query_memory: u64,
    /// Seconds that a query may take, until the client has taken its last row
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = clap::value_parser!(u32).range(1..))]
    pub query_time: u32,
    /// Queries that run at the same time; others wait
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u16).range(1..))]
    pub queries: u16,
    /// Scheduler of a cluster that computes the rows of queries: `http://HOST:PORT`
    #[command(flatten)]
    pub cluster: ClusterChoiceArgs,
    /// Run of the tables `stage.table`; by default always the last one that has finished
    #[command(flatten)]
    pub of: RunChoiceArgs,
    /// Read a file as the table NAME: csv, tsv, parquet, json, jsonl, ndjson. Repeatable. A query reads no other files
    #[arg(long = "file", value_name = "NAME=FILE", value_parser = str::parse::<NamedFile>)]
    pub files: Vec<NamedFile>,
}
