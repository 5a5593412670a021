//! Interruption of the running statement of a session, for Ctrl-C, its limit of time, and the pauses of operators and of
//! planning for it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use datafusion::common::exec_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result as SqlResult;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use futures::future::{Either, select};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use pairloom_base::error::{Error, ErrorCategory, Result};

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const INTERRUPTED: u8 = 2;

/// Handle that interrupts the running statement of a session, from any thread.
#[derive(Debug, Clone, Default)]
pub struct StatementInterrupt(Arc<InterruptState>);

#[derive(Debug, Default)]
struct InterruptState {
    state: AtomicU8,
    changed: Notify,
}

impl StatementInterrupt {
    /// Interrupts the running statement, which ends with an error. Returns false if none is running, or if it has been
    /// interrupted already.
    #[must_use]
    pub fn interrupt(&self) -> bool {
        let state = &self.0.state;
        let is_first = state.compare_exchange(RUNNING, INTERRUPTED, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        self.0.changed.notify_waiters();
        is_first
    }

    /// Marks the start of a statement, until the returned guard is dropped. The statement may take `time`.
    pub(super) fn start(&self, time: Option<Duration>) -> RunningStatement {
        self.0.state.store(RUNNING, Ordering::SeqCst);
        let limit = time.and_then(|time| Some(TimeLimit { end: Instant::now().checked_add(time)?, time }));
        RunningStatement { interrupt: self.clone(), limit }
    }
}

/// Guard of a running statement.
pub(super) struct RunningStatement {
    interrupt: StatementInterrupt,
    limit: Option<TimeLimit>,
}

/// Time that a statement may take, and the end of that time.
#[derive(Debug, Clone, Copy)]
struct TimeLimit {
    time: Duration,
    end: Instant,
}

impl TimeLimit {
    fn error(&self) -> Error {
        let seconds = self.time.as_secs_f64();
        Error::stage(format!("SQL: the query took {seconds} s, which is the limit"))
            .hint("`--query-time SECONDS` is the limit; a query of fewer rows takes less")
    }
}

impl RunningStatement {
    /// Waits for `work`, or fails at once when the statement is interrupted or its time is over.
    pub(super) async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let Some(limit) = self.limit else { return self.run_unless_interrupted(work).await };
        // `timeout_at` lets work pass that is ready.
        if Instant::now() >= limit.end {
            return Err(limit.error());
        }
        let result = timeout_at(limit.end, self.run_unless_interrupted(work)).await;
        result.unwrap_or_else(|_| Err(limit.error()))
    }

    /// Work that ends with an error, at its next [pause](with_pauses), after the statement was interrupted or its time was
    /// over. [`Self::run`] has the error to show.
    pub(super) fn watched<W: Future>(&self, work: W) -> impl Future<Output = W::Output> + use<W> {
        let (interrupt, limit) = (self.interrupt.clone(), self.limit);
        let is_over = move || {
            interrupt.0.state.load(Ordering::SeqCst) == INTERRUPTED
                || limit.is_some_and(|limit| Instant::now() >= limit.end)
        };
        IS_OVER.scope(Arc::new(is_over), work)
    }

    async fn run_unless_interrupted<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let shared = &self.interrupt.0;
        let mut work = pin!(work);
        loop {
            let mut changed = pin!(shared.changed.notified());
            // Registered before the state is read, so that no interruption is missed.
            changed.as_mut().enable();
            if shared.state.load(Ordering::SeqCst) == INTERRUPTED {
                return Err(Error::new(ErrorCategory::Interrupted, "the statement was interrupted"));
            }
            // A notification may be late, of an interruption of the statement before.
            if let Either::Right((result, _)) = select(changed, work.as_mut()).await {
                return Ok(result);
            }
        }
    }
}

impl Drop for RunningStatement {
    fn drop(&mut self) {
        self.interrupt.0.state.store(IDLE, Ordering::SeqCst);
    }
}

tokio::task_local! {
    /// True from the time at which nobody waits for the query that a task plans.
    static IS_OVER: Arc<dyn Fn() -> bool + Send + Sync>;
}

/// Guard of a query that is planned. Its drop ends the planning.
#[derive(Default)]
pub(super) struct PlannedQuery {
    is_over: Arc<AtomicBool>,
}

impl PlannedQuery {
    /// Work that ends with an error, at its next [pause](with_pauses), when the guard is dropped.
    pub(super) fn watched<W: Future>(&self, work: W) -> impl Future<Output = W::Output> + use<W> {
        let is_over = Arc::clone(&self.is_over);
        IS_OVER.scope(Arc::new(move || is_over.load(Ordering::Relaxed)), work)
    }
}

impl Drop for PlannedQuery {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Rule that changes nothing and ends the planning of a query for which nobody waits. Planning has no other pause.
#[derive(Debug)]
pub(super) struct PlanningPause;

impl PlanningPause {
    fn check() -> SqlResult<()> {
        match IS_OVER.try_with(|is_over| is_over()) {
            Ok(true) => exec_err!("the query has ended"),
            _ => Ok(()),
        }
    }
}

impl OptimizerRule for PlanningPause {
    fn name(&self) -> &'static str {
        "planning_pause"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> SqlResult<Transformed<LogicalPlan>> {
        Self::check()?;
        Ok(Transformed::no(plan))
    }
}

impl PhysicalOptimizerRule for PlanningPause {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> SqlResult<Arc<dyn ExecutionPlan>> {
        Self::check()?;
        Ok(plan)
    }

    fn name(&self) -> &'static str {
        "planning_pause"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Rules with a pause before each.
pub(super) fn with_pauses<R: ?Sized>(rules: Vec<Arc<R>>, pause: &Arc<R>) -> Vec<Arc<R>> {
    rules.into_iter().flat_map(|rule| [Arc::clone(pause), rule]).collect()
}

/// Operators whose rows are many more than those of their inputs. DataFusion lets scans pause, but not these.
const OPERATORS: [&str; 7] = [
    "CrossJoinExec",
    "NestedLoopJoinExec",
    "HashJoinExec",
    "SortMergeJoinExec",
    "PiecewiseMergeJoinExec",
    "UnnestExec",
    "WindowAggExec",
];

/// Lets [`OPERATORS`] pause, so that a query ends soon after it was interrupted.
#[derive(Debug)]
pub(super) struct CooperativeOperators;

impl PhysicalOptimizerRule for CooperativeOperators {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> SqlResult<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            Ok(if OPERATORS.contains(&node.name()) {
                Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>)
            } else {
                Transformed::no(node)
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "cooperative_operators"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::task::{Context, Poll, Waker};

    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::state::session_state;

    #[test]
    fn a_late_notification_does_not_end_the_next_statement() {
        let interrupt = StatementInterrupt::default();
        let before = interrupt.start(None);
        assert!(interrupt.interrupt() && !interrupt.interrupt());
        drop(before);
        let statement = interrupt.start(None);
        let mut run = pin!(statement.run(pending::<()>()));
        let mut poll = || run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll().is_pending());
        interrupt.0.changed.notify_waiters();
        assert!(poll().is_pending());
        assert!(interrupt.interrupt());
        assert!(matches!(poll(), Poll::Ready(Err(error)) if error.category() == ErrorCategory::Interrupted));
    }

    #[tokio::test]
    async fn planning_ends_when_nobody_waits() {
        let context = SessionContext::new_with_state(session_state(None, None).unwrap());
        let planned = || async { context.sql("SELECT 1 + 1").await?.create_physical_plan().await };
        let query = PlannedQuery::default();
        let work = query.watched(planned());
        assert!(query.watched(planned()).await.is_ok());
        drop(query);
        assert!(work.await.unwrap_err().to_string().contains("the query has ended"));
        let interrupt = StatementInterrupt::default();
        let statement = interrupt.start(None);
        assert!(statement.watched(planned()).await.is_ok());
        assert!(interrupt.interrupt() && statement.watched(planned()).await.is_err());
        let statement = interrupt.start(Some(Duration::ZERO));
        assert!(statement.watched(planned()).await.is_err());
    }
}
