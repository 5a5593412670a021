//! Queries of a session on a cluster.

use std::any::Any;
use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use ballista_core::extension::SessionConfigExt;
use ballista_core::optimizer::with_ballista_optimizer_rules;
use datafusion::common::plan_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionConfig;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};

use super::functions::client_config;
use super::plan_check::check_plan;
use super::store_id::id_of_store;
use super::submission::{Submission, fetch_rows};
use pairloom_base::error::Error;
use pairloom_base::runtime::ClusterUrl;
use pairloom_query::PlanRunner;
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
