//! Sections of searches as tasks of a cluster.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use ballista_core::extension::SessionConfigExt;
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::{DataFusionError, Result as SqlResult};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use datafusion::prelude::SessionConfig;
use futures::channel::oneshot;
use tokio::runtime::Builder;

use super::functions::client_config;
use super::search_section::SearchSection;
use super::store_id::id_of_store;
use super::submission::Submission;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::ClusterUrl;
use pairloom_store::Store;
use pairloom_tables as tables;

/// Runs sections of a search job on the cluster of the scheduler at `url`, whose executors read `store`, and waits for them.
/// `folder` has the objects of the job. If `stop` comes first, the job is cancelled on the cluster.
///
/// # Errors
/// A section failed; the scheduler cannot be reached; an interruption.
pub fn run_sections(
    url: &ClusterUrl,
    store: &Store,
    folder: &str,
    job: &str,
    sections: &[usize],
    stop: oneshot::Receiver<()>,
) -> Result<()> {
    let plan = plan(folder, job, sections).map_err(|error| Error::internal(error.to_string()))?;
    let config = client_config(SessionConfig::new_with_ballista(), &id_of_store(store)?);
    let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("cluster").enable_all().build();
    let runtime = runtime.map_err(|error| Error::stage(format!("cannot start threads for the cluster: {error}")))?;
    let task = runtime.spawn({
        let url = url.clone();
        async move { Submission::submit(&url, plan, &config).await?.finish_unless(stop).await }
    });
    let ended = runtime.block_on(task);
    ended.map_err(|_| Error::internal("a thread of the cluster panicked"))?.map(drop)
}

/// Plan with a task for each section.
fn plan(folder: &str, job: &str, sections: &[usize]) -> SqlResult<Arc<dyn ExecutionPlan>> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("folder", DataType::Utf8, false),
        Field::new("job", DataType::Utf8, false),
        Field::new("section", DataType::UInt64, false),
    ]));
    let row = |section: &usize| {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec![folder])),
            Arc::new(StringArray::from(vec![job])),
            Arc::new(UInt64Array::from(vec![*section as u64])),
        ];
        tables::batch(&schema, columns).map(|row| vec![row])
    };
    let rows = sections
        .iter()
        .map(row)
        .collect::<Result<Vec<_>>>()
        .map_err(|error| DataFusionError::External(Box::new(error)))?;
    let rows = MemorySourceConfig::try_new_exec(&rows, Arc::clone(&schema), None)?;
    let column = |(place, name)| Arc::new(Column::new(name, place)) as Arc<dyn PhysicalExpr>;
    let arguments = ["folder", "job", "section"].into_iter().enumerate().map(column).collect();
    let function = SearchSection::function(None);
    let section = ScalarFunctionExpr::try_new(function, arguments, &schema, Arc::new(ConfigOptions::default()))?;
    let column = ProjectionExpr { expr: Arc::new(section), alias: "bytes".to_owned() };
    Ok(Arc::new(ProjectionExec::try_new(vec![column], rows)?))
}
