//! Queries of a session on a cluster: refusal of those that cannot be sent without a change of their meaning, the plan that was
//! submitted until it has ended, and its rows.

use std::any::Any;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use ballista_core::BALLISTA_VERSION;
use ballista_core::client::BallistaClient;
use ballista_core::error::BallistaError;
use ballista_core::extension::SessionConfigExt;
use ballista_core::optimizer::with_ballista_optimizer_rules;
use ballista_core::serde::protobuf::execute_query_params::Query;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    CancelJobParams, ExecuteQueryParams, GetJobStatusParams, KeyValuePair, PartitionLocation, execute_query_result,
    job_status,
};
use ballista_core::utils::{GrpcClientConfig, create_grpc_client_endpoint};
use ballista_core::version::{check_compatibility, insert_version_header, version_from_metadata};
use datafusion::common::plan_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::expr::NullTreatment;
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan, SkipType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionConfig;
use datafusion_proto::physical_plan::AsExecutionPlan;
use datafusion_proto::protobuf::PhysicalPlanNode;
use futures::channel::oneshot;
use futures::future::{Either, select};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;
use tonic::transport::Channel;

use super::executor_error::executor_error;
use super::functions::{FETCH_PAUSE, MAX_MESSAGE_BYTES, PlanCodec, client_config};
use super::store_id::id_of_store;
use pairloom_base::error::{self, Error, with_causes};
use pairloom_base::runtime::{ClusterUrl, random_hex};
use pairloom_query::{PlanRunner, sent_error, with_sent_errors};
use pairloom_store::Store;

/// Tasks of a stage of a query of large tables.
const PARTITIONS: usize = 16;
/// Times that a query runs whose rows cannot be fetched: the executor that has them may have died.
const TRIES: u8 = 3;

/// Plan whose limits of tables in memory are operators. The message of such a table has no limit.
///
/// # Errors
/// Rows of `generate_series` without their column, or with a limit: its message has neither.
fn with_explicit_limits(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let explicit = plan.transform_up(|node| {
        let is_series = node.downcast_ref::<LazyMemoryExec>().is_some();
        if is_series && (node.schema().fields().is_empty() || node.fetch().is_some()) {
            return plan_err!(
                "a cluster does not run `generate_series` without its column or with a limit; use the column, as in \
                 `count(value)`, or leave `--cluster` (or `PAIRLOOM_CLUSTER`) out"
            );
        }
        let in_memory = node
            .downcast_ref::<DataSourceExec>()
            .is_some_and(|source| (source.data_source().as_ref() as &dyn Any).is::<MemorySourceConfig>());
        Ok(match node.fetch() {
            Some(limit) if in_memory => Transformed::yes(Arc::new(LocalLimitExec::new(node, limit)) as _),
            _ => Transformed::no(node),
        })
    });
    explicit.data()
}

/// Runner of the plans of a session on a cluster.
#[derive(Debug)]
pub struct ClusterPlans {
    url: ClusterUrl,
    store_id: String,
}

impl ClusterPlans {
    /// Runner on the cluster of the scheduler at `url`, whose executors read `store`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn new(url: ClusterUrl, store: &Store) -> Result<Self, Error> {
        Ok(Self { url, store_id: id_of_store(store)? })
    }
}

#[async_trait]
impl PlanRunner for ClusterPlans {
    fn check(&self, plan: &LogicalPlan) -> Result<()> {
        check_plan(plan)
    }

    fn state(&self, state: SessionState) -> SessionState {
        let rules = with_ballista_optimizer_rules(state.optimizers());
        let mut config = client_config(state.config().clone().upgrade_for_ballista(), &self.store_id);
        // A query of small tables runs as one task.
        if config.target_partitions() > 1 {
            config = config.with_target_partitions(PARTITIONS);
        }
        SessionStateBuilder::new_from_existing(state).with_config(config).with_optimizer_rules(rules).build()
    }

    async fn run(&self, plan: Arc<dyn ExecutionPlan>, config: &SessionConfig) -> Result<SendableRecordBatchStream> {
        let plan = with_explicit_limits(plan)?;
        let mut tries = 1;
        loop {
            let (first, rows) = self.first_rows(Arc::clone(&plan), config).await?;
            if matches!(first, Some(Err(_))) && tries < TRIES {
                tries += 1;
                continue;
            }
            let rows = stream::iter(first).chain(rows);
            return Ok(Box::pin(RecordBatchStreamAdapter::new(plan.schema(), rows.boxed())));
        }
    }
}

impl ClusterPlans {
    /// Runs a plan. Returns its first rows and the others. The first are an error if the executor that has them has died.
    async fn first_rows(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &SessionConfig,
    ) -> Result<(Option<Result<RecordBatch>>, BoxStream<'static, Result<RecordBatch>>)> {
        let columns = plan.schema();
        let external = |error: Error| DataFusionError::External(Box::new(error));
        let mut submission = Submission::submit(&self.url, plan, config).await.map_err(external)?;
        let locations = submission.finish().await?;
        let config = config.clone();
        let parts = stream::iter(locations).then(move |location| {
            let config = config.clone();
            async move { fetch_rows(location, &config).await }
        });
        // The executors forget column metadata that the session has.
        let mut rows = parts.try_flatten().map(move |batch| Ok(batch?.with_schema(Arc::clone(&columns))?)).boxed();
        Ok((rows.next().await, rows))
    }
}

/// Pauses between two questions for the state of a job: the first, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(250)];
/// Time for the scheduler to cancel a job.
const CANCEL_TIME: Duration = Duration::from_secs(5);
/// Tries of a request to an executor.
const FETCH_TRIES: u8 = 3;

/// Plan that was submitted. Dropping it cancels the job, unless it has ended.
pub(super) struct Submission {
    scheduler: SchedulerGrpcClient<Channel>,
    job: String,
    has_ended: bool,
}

impl Submission {
    /// Submits a plan.
    ///
    /// # Errors
    /// The scheduler cannot be reached, has another build, or refuses the plan.
    pub async fn submit(url: &ClusterUrl, plan: Arc<dyn ExecutionPlan>, config: &SessionConfig) -> error::Result<Self> {
        let message = with_sent_errors(plan)
            .and_then(|plan| PhysicalPlanNode::try_from_physical_plan(plan, &PlanCodec::default()));
        let mut bytes = Vec::new();
        message.and_then(|message| message.try_encode(&mut bytes)).map_err(|error| {
            Error::usage(format!("the query cannot be sent to a cluster: {}", error.strip_backtrace()))
        })?;
        if bytes.len() > MAX_MESSAGE_BYTES as usize {
            let message = format!(
                "the query has {} bytes with the rows of small tables, expected at most {MAX_MESSAGE_BYTES}",
                bytes.len()
            );
            return Err(Error::usage(message).hint("run it without `--cluster`"));
        }
        let mut scheduler = connect(url, config).await?;
        let refused = |message: &str| Error::stage(format!("the scheduler at {url} refused the query: {message}"));
        match execute(&mut scheduler, url, bytes, config).await? {
            Some(execute_query_result::Result::Success(started)) => {
                Ok(Self { scheduler, job: started.job_id, has_ended: false })
            }
            Some(execute_query_result::Result::Failure(failure)) => Err(refused(&format!("{failure:?}"))),
            None => Err(refused("the answer is empty")),
        }
    }

    /// Waits for the end of the job, and returns the places of its rows.
    ///
    /// # Errors
    /// The job failed: the error of an executor. The scheduler cannot be reached: an error of ours.
    pub async fn finish(&mut self) -> Result<Vec<PartitionLocation>> {
        let mut pause = PAUSES[0];
        loop {
            let question = GetJobStatusParams { job_id: self.job.clone() };
            let answer = self.scheduler.get_job_status(question).await.map_err(|status| {
                let error = Error::stage(format!("the scheduler does not answer any more: {}", status.message()));
                let hint = "start a scheduler and run the same command again; an evaluation goes on from its sections";
                DataFusionError::External(Box::new(error.hint(hint)))
            })?;
            match answer.into_inner().status.and_then(|status| status.status) {
                Some(job_status::Status::Successful(job)) => {
                    self.has_ended = true;
                    return Ok(job.partition_location);
                }
                Some(job_status::Status::Failed(job)) => {
                    self.has_ended = true;
                    return Err(executor_error(&job.error));
                }
                _ => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES[1]);
        }
    }

    /// Waits like [`Submission::finish`], unless `stop` comes first, which cancels the job.
    ///
    /// # Errors
    /// Those of [`Submission::finish`], or an interruption.
    pub async fn finish_unless(mut self, stop: oneshot::Receiver<()>) -> error::Result<Vec<PartitionLocation>> {
        let finished = match select(Box::pin(self.finish()), stop).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => return Err(Error::interrupted()),
        };
        finished.map_err(|error| match error {
            DataFusionError::External(ours) => {
                ours.downcast::<Error>().map_or_else(|other| Error::stage(other.to_string()), |ours| *ours)
            }
            error => Error::stage(format!("an executor failed: {}", error.message())),
        })
    }
}

impl Drop for Submission {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !self.has_ended {
            let (mut scheduler, job_id) = (self.scheduler.clone(), std::mem::take(&mut self.job));
            let (sender, answered) = mpsc::sync_channel(1);
            // The process may end right after this, so the answer is waited for. A task that this thread spawned would wait
            // for this thread. Without an answer the job runs to its end, and its rows are removed later.
            let handle = runtime.clone();
            drop(runtime.spawn_blocking(move || {
                let cancelled = handle.block_on(scheduler.cancel_job(CancelJobParams { job_id }));
                let _ = sender.send(cancelled.is_ok());
            }));
            let _ = answered.recv_timeout(CANCEL_TIME);
        }
    }
}

/// Connects to the scheduler.
///
/// # Errors
/// It cannot be reached.
async fn connect(url: &ClusterUrl, config: &SessionConfig) -> error::Result<SchedulerGrpcClient<Channel>> {
    let connection = GrpcClientConfig::from(&config.ballista_config());
    let unreachable = |error: &dyn std::error::Error| {
        Error::stage(format!("the scheduler at {url} cannot be reached: {}", with_causes(error)))
            .hint("start one with `pairloom cluster scheduler`, and executors with `pairloom cluster executor`")
    };
    let endpoint = create_grpc_client_endpoint(url.to_string(), Some(&connection)).map_err(|e| unreachable(&e))?;
    let channel = endpoint.connect().await.map_err(|error| unreachable(&error))?;
    Ok(SchedulerGrpcClient::new(channel)
        .max_encoding_message_size(MAX_MESSAGE_BYTES as usize)
        .max_decoding_message_size(MAX_MESSAGE_BYTES as usize))
}

/// Sends a plan to the scheduler. Returns its answer.
///
/// # Errors
/// It has another build, or does not answer.
async fn execute(
    scheduler: &mut SchedulerGrpcClient<Channel>,
    url: &ClusterUrl,
    plan: Vec<u8>,
    config: &SessionConfig,
) -> error::Result<Option<execute_query_result::Result>> {
    let entries = config.options().entries();
    let settings = entries.into_iter().map(|entry| KeyValuePair { key: entry.key, value: entry.value }).collect();
    let [session_id, operation_id] = [random_hex::<16>()?, random_hex::<16>()?];
    let query = Some(Query::PhysicalPlan(plan));
    let mut request = tonic::Request::new(ExecuteQueryParams { session_id, settings, operation_id, query });
    insert_version_header(request.metadata_mut());
    let refused = |message: &str| {
        let message = sent_error(message).map_or_else(|| message.to_owned(), |error| error.to_string());
        Error::stage(format!("the scheduler at {url} refused: {message}"))
    };
    let response = scheduler.execute_query(request).await.map_err(|status| refused(status.message()))?;
    let scheduler_version = version_from_metadata(response.metadata());
    check_compatibility(Some(BALLISTA_VERSION), scheduler_version).map_err(|message| {
        refused(&message).hint("all processes of a cluster need one build of Pairloom; `pairloom --version` shows it")
    })?;
    Ok(response.into_inner().result)
}

/// Waits until the scheduler answers, and checks that it takes messages of this build.
///
/// # Errors
/// The scheduler cannot be reached within `time`, or has another build.
pub(super) async fn wait_for_scheduler(url: &ClusterUrl, time: Duration) -> error::Result<()> {
    let config = client_config(SessionConfig::new_with_ballista(), "");
    let end = Instant::now() + time;
    let mut scheduler = loop {
        match connect(url, &config).await {
            Err(_) if Instant::now() < end => tokio::time::sleep(PAUSES[1]).await,
            connected => break connected?,
        }
    };
    // The settings are read before the plan, which is none. So no job begins.
    execute(&mut scheduler, url, Vec::new(), &config).await.map(drop)
}

/// Rows of one partition, from the executor that has them.
///
/// # Errors
/// The executor cannot be reached.
pub(super) async fn fetch_rows(
    location: PartitionLocation,
    config: &SessionConfig,
) -> Result<SendableRecordBatchStream> {
    let layout = location.layout();
    let (Some(executor), Some(partition)) = (location.executor_meta, location.partition_id) else {
        return datafusion::common::exec_err!("the scheduler named no executor of a partition");
    };
    let port = u16::try_from(executor.port).unwrap_or_default();
    let connection = GrpcClientConfig::from(&config.ballista_config());
    let mut client = BallistaClient::try_new(
        &executor.host,
        port,
        MAX_MESSAGE_BYTES as usize,
        false,
        None,
        FETCH_TRIES,
        FETCH_PAUSE,
        connection.initial_connection_window_size,
        connection.initial_stream_window_size,
    )
    .await
    .map_err(BallistaError::into_datafusion)?;
    let rows = client.fetch_partition(&executor.id, &partition.into(), location.file_id, layout, true).await;
    rows.map_err(BallistaError::into_datafusion)
}

/// Largest number of rows of a limit: messages have 32 bits for it.
const MAX_LIMIT: usize = u32::MAX as usize - 1;

/// Refuses parts of a query that messages between processes leave out.
///
/// # Errors
/// A window function with `FILTER` or `IGNORE NULLS`, a limit of 2³² rows, or a recursive query.
pub(super) fn check_plan(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::RecursiveQuery(_) => return refuse("`WITH RECURSIVE`"),
            LogicalPlan::Limit(limit) => {
                let is_large = |rows: usize| rows > MAX_LIMIT;
                let fetch = matches!(limit.get_fetch_type()?, FetchType::Literal(Some(rows)) if is_large(rows));
                if fetch || matches!(limit.get_skip_type()?, SkipType::Literal(rows) if is_large(rows)) {
                    return refuse("a limit or offset of 2³² rows");
                }
            }
            _ => {}
        }
        node.apply_expressions(|expression| expression.apply(check_expression))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn check_expression(expression: &Expr) -> Result<TreeNodeRecursion> {
    match expression {
        Expr::WindowFunction(window) if window.params.filter.is_some() => {
            refuse("`FILTER` of a window function; write `CASE WHEN … END` in its argument,")
        }
        Expr::WindowFunction(window) if window.params.null_treatment == Some(NullTreatment::IgnoreNulls) => {
            refuse("`IGNORE NULLS`")
        }
        _ => Ok(TreeNodeRecursion::Continue),
    }
}

fn refuse(what: &str) -> Result<TreeNodeRecursion> {
    plan_err!("a cluster does not run {what} so far; leave `--cluster` (or `PAIRLOOM_CLUSTER`) out")
}
