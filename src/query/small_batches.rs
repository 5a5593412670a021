//! Inputs that a join reads a few rows at a time.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SplitMetrics};
use datafusion::physical_plan::stream::{BatchSplitStream, RecordBatchStreamAdapter};
use futures::StreamExt;

use crate::pass_through::{PassThroughExec, ReadInput};

/// Largest number of rows of a batch. DataFusion compares a batch of less than a tenth of its own size with many rows of the
/// other side at once, so small batches cost little.
const ROWS: usize = 512;

/// Operator with the rows of its input in small batches, with a pause after each.
///
/// A join without an equality compares a batch of its right input with all rows of the left one before it can be
/// interrupted, unless pairs match.
pub(super) type SmallBatchesExec = PassThroughExec<SmallBatches>;

/// Returns the operator over `input`.
pub(super) fn small_batches(input: Arc<dyn ExecutionPlan>) -> SmallBatchesExec {
    PassThroughExec::new(input, SmallBatches)
}

/// Reader of small batches.
#[derive(Debug)]
pub(super) struct SmallBatches;

impl ReadInput for SmallBatches {
    const NAME: &'static str = "SmallBatchesExec";

    fn of_other(&self, _: &Arc<dyn ExecutionPlan>) -> Self {
        Self
    }

    fn read(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let metrics = SplitMetrics::new(&ExecutionPlanMetricsSet::new(), partition);
        let batches = BatchSplitStream::new(input.execute(partition, context)?, ROWS, metrics);
        // The pause comes when the join asks for the next batch, and so is done with the one before.
        let batches = batches.then(|batch| async {
            tokio::task::yield_now().await;
            batch
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(input.schema(), batches)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use datafusion::physical_plan::{collect, displayable};
    use datafusion::prelude::SessionContext;

    use crate::state::session_state;

    /// 3·10¹⁰ pairs, none of which matches.
    #[test]
    fn a_join_without_matches_can_be_interrupted() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let ended = runtime.block_on(async {
            let context = SessionContext::new_with_state(session_state(None, None).unwrap());
            let sql = "SELECT count(*) FROM generate_series(1, 30000) a(x) JOIN generate_series(1, 1000000) b(x) ON \
                 sin(a.x * b.x) > 2";
            let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
            let text = displayable(plan.as_ref()).indent(false).to_string();
            assert!(text.contains("SmallBatchesExec"), "{text}");
            let rows = tokio::spawn(collect(plan, context.task_ctx()));
            tokio::time::sleep(Duration::from_millis(300)).await;
            rows.abort();
            rows.await
        });
        assert!(ended.unwrap_err().is_cancelled());
        // A task that computes holds the end of the runtime up, here for many minutes.
        drop(runtime);
    }

    #[tokio::test]
    async fn the_pairs_are_those_of_the_condition() {
        let context = SessionContext::new_with_state(session_state(None, None).unwrap());
        // Of 1..=1300 and 1..=1000 the pairs with a + b > 2290: Σ over d = 1..10 of d, for a from 1291 and b up to 1000.
        for (join, wanted) in
            [("JOIN", 55), ("LEFT JOIN", 55 + 1290), ("RIGHT JOIN", 55 + 990), ("FULL JOIN", 55 + 1290 + 990)]
        {
            let sql = format!(
                "SELECT a.x, b.x AS y FROM generate_series(1, 1300) a(x) {join} generate_series(1, 1000) b(x) ON a.x + b.x > 2290"
            );
            assert_eq!(context.sql(&sql).await.unwrap().count().await.unwrap(), wanted, "{join}");
        }
    }
}
