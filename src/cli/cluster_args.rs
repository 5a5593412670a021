//! Command-line arguments of a cluster. Doc comments of fields and variants are the help texts.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};

use pairloom_base::runtime::ClusterUrl;

/// Processes of a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Start the scheduler, which hands tasks to executors
    Scheduler(SchedulerArgs),
    /// Start an executor, which runs the tasks of a scheduler on the data of the store
    Executor(ExecutorArgs),
}

/// Arguments of `cluster scheduler`.
#[derive(Debug, Args)]
pub struct SchedulerArgs {
    /// Address to listen on; port 0 means any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:50050")]
    pub address: SocketAddr,
    /// Listen on an address that other machines reach. Ports have no authentication: whoever reaches them can read the
    /// store and use the executors
    #[arg(long)]
    pub allow_remote: bool,
    /// Seconds after which an executor that is silent counts as dead, and its tasks go to others. It gives a sign of life
    /// every two seconds
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = clap::value_parser!(u64).range(5..))]
    pub executor_timeout: u64,
}

/// Arguments of `cluster executor`.
#[derive(Debug, Args)]
pub struct ExecutorArgs {
    /// Scheduler: `http://HOST:PORT`
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:50050")]
    pub scheduler: ClusterUrl,
    /// Address of the network interface to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub address: IpAddr,
    /// Listen on an address that other machines reach. Ports have no authentication: whoever reaches them can read the
    /// store and use the executors
    #[arg(long)]
    pub allow_remote: bool,
    /// Name or address under which the other processes reach this one [default: the address that it listens on]
    #[arg(long, value_name = "HOST")]
    pub external_host: Option<String>,
    /// Port for rows that other processes fetch; 0 means any free port
    #[arg(long, value_name = "PORT", default_value = "0")]
    pub rows_port: u16,
    /// Port for tasks of the scheduler; 0 means any free port
    #[arg(long, value_name = "PORT", default_value = "0")]
    pub tasks_port: u16,
    /// Memory of the sorts, groups and joins of a query on one thread. Sorts and groups that need more use temporary files;
    /// a sort of many short rows by several columns can fail instead
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = super::units::parse_capacity)]
    pub query_memory: u64,
    /// Folder for rows that other processes fetch, and for temporary files [default: the folder of the system]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// Choice of a cluster.
#[derive(Debug, Clone, Default, Args)]
pub struct ClusterChoiceArgs {
    /// Scheduler of a cluster that computes the searches of `evaluate`, or the rows of a query: `http://HOST:PORT`. Its
    /// executors need this store
    #[arg(long, value_name = "URL", env = "PAIRLOOM_CLUSTER")]
    pub cluster: Option<ClusterUrl>,
}
