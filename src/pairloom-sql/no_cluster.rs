//! The commands of a cluster, in a program without it: errors that say how to build it.

use std::sync::Arc;

use pairloom_base::error::Result;
use pairloom_base::runtime::ClusterUrl;
use pairloom_cli::args::{ClusterCommand, CommonArgs};
use pairloom_cli::console::Console;
use pairloom_cli::not_built;
use pairloom_query::PlanRunner;
use pairloom_store::Store;

pub(super) fn cluster(_: &CommonArgs, _: &ClusterCommand, _: Console) -> Result<()> {
    Err(not_built("cluster"))
}

pub(super) fn plan_runner(cluster: Option<&ClusterUrl>, _: &Store) -> Result<Option<Arc<dyn PlanRunner>>> {
    cluster.map_or(Ok(None), |_| Err(not_built("--cluster")))
}

pub(super) fn search_sections(_: &str, _: &Store, _: (&str, &str), _: &[usize]) -> Result<()> {
    Err(not_built("--cluster"))
}
