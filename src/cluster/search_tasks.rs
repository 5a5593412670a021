//! Sections of searches as tasks of a cluster, and the function that computes one on an executor.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use ballista_core::extension::SessionConfigExt;
use bytes::Bytes;
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::common::config::ConfigOptions;
use datafusion::common::exec_err;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::{DataFusionError, Result as SqlResult};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use datafusion::prelude::SessionConfig;
use futures::channel::oneshot;
use tokio::runtime::Builder;

use super::functions::client_config;
use super::plan_runner::Submission;
use super::store_id::id_of_store;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::ClusterUrl;
use pairloom_search::SearchWorker;
use pairloom_store::Store;
use pairloom_store::search_tasks::{object_name, result_name};
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

/// Function `search_section(folder, job, section)`: computes a section of a search job, writes its result to the store, and
/// returns the size of the result in bytes. A result that exists is not computed again.
#[derive(Debug)]
pub(super) struct SearchSection {
    signature: Signature,
    /// Store and worker of an executor. The other processes know the name of the function only.
    executor: Option<(Store, SearchWorker)>,
}

impl SearchSection {
    /// The function in a process that computes sections with the objects of `store`, or only plans them.
    pub fn function(store: Option<Store>) -> Arc<ScalarUDF> {
        let executor = store.map(|store| (store, SearchWorker::default()));
        let signature = Signature::exact(vec![DataType::Utf8, DataType::Utf8, DataType::UInt64], Volatility::Volatile);
        Arc::new(ScalarUDF::new_from_impl(Self { signature, executor }))
    }
}

impl PartialEq for SearchSection {
    fn eq(&self, other: &Self) -> bool {
        self.signature == other.signature
    }
}

impl Eq for SearchSection {}

impl std::hash::Hash for SearchSection {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.signature.hash(state);
    }
}

impl ScalarUDFImpl for SearchSection {
    fn name(&self) -> &'static str {
        "search_section"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> SqlResult<DataType> {
        Ok(DataType::UInt64)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> SqlResult<ColumnarValue> {
        let Some((store, worker)) = &self.executor else {
            return exec_err!("`search_section` runs on the executors of a cluster only");
        };
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [folders, jobs] = [as_string_array(&columns[0])?, as_string_array(&columns[1])?];
        let sections = as_uint64_array(&columns[2])?;
        let sizes = (0..arguments.number_rows).map(|row| {
            if folders.is_null(row) || jobs.is_null(row) || sections.is_null(row) {
                return exec_err!("`search_section` wants a folder, a job and a section");
            }
            let (job, section) = (jobs.value(row), usize::try_from(sections.value(row)).unwrap_or(usize::MAX));
            // Requests to a store wait on threads of their own, which a thread of tokio must not do. A panic stays there.
            let compute = || compute(store, worker, folders.value(row), job, section);
            let computed = std::thread::scope(|scope| scope.spawn(compute).join());
            let computed = computed.unwrap_or_else(|_| Err(Error::internal("the search of a section panicked")));
            computed.map_err(|error| DataFusionError::External(Box::new(error)))
        });
        let sizes: ArrayRef = Arc::new(sizes.collect::<SqlResult<UInt64Array>>()?);
        Ok(ColumnarValue::Array(sizes))
    }
}

/// Computes a section and writes its result. Returns the size of the result.
fn compute(store: &Store, worker: &SearchWorker, folder: &str, job: &str, section: usize) -> Result<Option<u64>> {
    if [folder, job].iter().any(|name| name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        return Err(Error::data("got no search job, expected its folder and its digest"));
    }
    let objects = store.objects();
    let name = result_name(job, section);
    if let Some(bytes) = objects.size(&name)? {
        return Ok(Some(bytes));
    }
    let mut read = |digest: &str| -> Result<Vec<u8>> {
        let name = object_name(folder, digest);
        let content = objects.get(&name)?.ok_or_else(|| {
            Error::data(format!("`{}` is absent", objects.display_path(&name)))
                .hint("all processes of a cluster need the store of the run: `--store`")
        })?;
        if blake3::hash(&content).to_hex().as_str() != digest {
            return Err(Error::data(format!("`{}` is damaged", objects.display_path(&name))));
        }
        Ok(content.into())
    };
    let result = worker.compute(job, section, &mut read, &mut |_, _| Ok(()))?;
    let bytes = result.len() as u64;
    // Two executors may compute a section if one was slow. Their results are equal.
    objects.create(&name, Bytes::from(result))?;
    Ok(Some(bytes))
}
