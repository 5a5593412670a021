//! Sections of searches as tasks of a cluster.

use std::collections::BTreeSet;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::{ArrayRef, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use ballista_core::extension::SessionConfigExt;
use bytes::Bytes;
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::{DataFusionError, Result as SqlResult};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use datafusion::prelude::SessionConfig;
use futures::channel::oneshot;
use tokio::runtime::{Builder, Runtime};

use super::address::ClusterUrl;
use super::functions::client_config;
use super::search_section::{SearchSection, object_name, objects_folder, result_name, results_folder};
use super::store_id::id_of_store;
use super::submission::{CANCEL_TIME, Submission};
use crate::error::{Error, Result};
use crate::runtime::{RemoteTasks, random_hex};
use crate::store::Store;
use crate::tables;

/// Pause between two looks at the results of a job.
const PAUSE: Duration = Duration::from_millis(200);

/// Tasks of a cluster whose processes have one store. Objects and results travel through the store, so an interrupted
/// evaluation goes on from the sections that are there.
#[derive(Debug)]
pub struct ClusterTasks {
    url: ClusterUrl,
    store: Store,
    store_id: String,
    runtime: Runtime,
    /// Folder of the objects of this process.
    folder: String,
    /// Objects that this process has published.
    published: Mutex<BTreeSet<String>>,
    /// Operations that this process has computed, each noted once.
    computed_here: Mutex<BTreeSet<String>>,
    note: OperationNote,
}

/// Receiver of the operations that the process of a run computes.
struct OperationNote(Box<dyn Fn(&str) + Send + Sync>);

impl std::fmt::Debug for OperationNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OperationNote")
    }
}

impl ClusterTasks {
    /// Tasks of the cluster of the scheduler at `url`, whose executors read `store`. Calls `note` with each operation that
    /// this process computes.
    ///
    /// # Errors
    /// Threads cannot be started, or the store cannot be read.
    pub fn new(url: ClusterUrl, store: Store, note: impl Fn(&str) + Send + Sync + 'static) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("cluster").enable_all().build();
        let runtime =
            runtime.map_err(|error| Error::stage(format!("cannot start threads for the cluster: {error}")))?;
        let (folder, store_id) = (random_hex::<8>()?, id_of_store(&store)?);
        let (published, computed_here) = (Mutex::default(), Mutex::default());
        Ok(Self {
            url,
            store,
            store_id,
            runtime,
            folder,
            published,
            computed_here,
            note: OperationNote(Box::new(note)),
        })
    }

    /// Sections that have a result.
    fn finished(&self, job: &str) -> Result<BTreeSet<usize>> {
        let folder = results_folder(job);
        let names = self.store.objects().list(&folder)?;
        Ok(names.iter().filter_map(|name| name.rsplit('/').next()?.parse().ok()).collect())
    }

    /// Runs the sections of a job, and waits for them.
    fn run_sections(&self, job: &str, sections: &[usize], report: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let plan = plan(&self.folder, job, sections).map_err(|error| Error::internal(error.to_string()))?;
        let (stop, stopped) = oneshot::channel();
        let (sender, ended) = mpsc::sync_channel(1);
        let (url, config) = (self.url.clone(), client_config(SessionConfig::new_with_ballista(), &self.store_id));
        self.runtime.spawn(async move {
            let result = async { Submission::submit(&url, plan, &config).await?.finish_unless(stopped).await };
            // Nobody waits any more.
            let _ = sender.send(result.await);
        });
        loop {
            match ended.recv_timeout(PAUSE) {
                Ok(result) => return result.map(drop),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Error::internal("a thread of the cluster panicked")),
            }
            if let Err(error) = report() {
                // The job is cancelled on the cluster, if the scheduler answers soon.
                let _ = stop.send(());
                let _ = ended.recv_timeout(CANCEL_TIME);
                return Err(error);
            }
        }
    }
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

impl RemoteTasks for ClusterTasks {
    fn publish(&self, content: Vec<u8>) -> Result<String> {
        let digest = blake3::hash(&content).to_hex().to_string();
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        if !published.contains(&digest) {
            self.store.objects().create(&object_name(&self.folder, &digest), Bytes::from(content))?;
            published.insert(digest.clone());
        }
        Ok(digest)
    }

    fn run(&self, job: &str, tasks: usize, report: &mut dyn FnMut(usize) -> Result<()>) -> Result<()> {
        let finished = self.finished(job)?;
        report(finished.len())?;
        let missing: Vec<usize> = (0..tasks).filter(|task| !finished.contains(task)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        self.run_sections(job, &missing, &mut || report(self.finished(job)?.len()))?;
        report(tasks)
    }

    fn result(&self, job: &str, task: usize) -> Result<Option<Vec<u8>>> {
        Ok(self.store.objects().get(&result_name(job, task))?.map(Vec::from))
    }

    fn remove_result(&self, job: &str, task: usize) -> Result<()> {
        self.store.objects().delete(&result_name(job, task))
    }

    fn note_computed_here(&self, operation: &str) {
        if self.computed_here.lock().unwrap_or_else(PoisonError::into_inner).insert(operation.to_owned()) {
            (self.note.0)(operation);
        }
    }

    fn finish(&self, job: &str, tasks: usize) -> Result<()> {
        let objects = self.store.objects();
        let results: Vec<String> = (0..tasks).map(|task| result_name(job, task)).collect();
        objects.delete_all(&results)?;
        self.published.lock().unwrap_or_else(PoisonError::into_inner).remove(job);
        objects.delete(&object_name(&self.folder, job))?;
        objects.remove_empty_folder(&results_folder(job));
        Ok(())
    }
}

impl Drop for ClusterTasks {
    fn drop(&mut self) {
        // The vectors serve all searches of a run. What cannot be removed is left to garbage collection.
        let published = std::mem::take(self.published.get_mut().unwrap_or_else(PoisonError::into_inner));
        let names: Vec<String> = published.iter().map(|digest| object_name(&self.folder, digest)).collect();
        let _ = self.store.objects().delete_all(&names);
        self.store.objects().remove_empty_folder(&objects_folder(&self.folder));
    }
}
