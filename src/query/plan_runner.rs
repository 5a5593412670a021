//! Execution of a session's plans by other processes.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;

/// Runner of a session's plans in other processes.
#[async_trait]
pub trait PlanRunner: Debug + Send + Sync {
    /// Refuses a query that these processes cannot run as it is meant.
    ///
    /// # Errors
    /// The query has such a part.
    fn check(&self, plan: &LogicalPlan) -> Result<()>;

    /// Session state that makes plans for these processes.
    fn state(&self, state: SessionState) -> SessionState;

    /// Runs a plan that such a state with these settings has made.
    ///
    /// # Errors
    /// The processes cannot be reached, or the plan fails.
    async fn run(&self, plan: Arc<dyn ExecutionPlan>, config: &SessionConfig) -> Result<SendableRecordBatchStream>;
}
