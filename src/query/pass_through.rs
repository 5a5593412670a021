//! Operators whose rows are those of their input, and the rules that put them below others: of nested loop joins one input is
//! read once, and the other in small batches, as that of operators with large constants.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SplitMetrics};
use datafusion::physical_plan::stream::{BatchSplitStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::StreamExt;

/// Way in which an operator reads the rows of its input.
pub(super) trait ReadInput: Debug + Send + Sync + Sized + 'static {
    /// Name of the operator in plans.
    const NAME: &'static str;

    /// The same way for another input, without what was read of this one.
    fn of_other(&self, input: &Arc<dyn ExecutionPlan>) -> Self;

    /// Reads a partition of the input.
    ///
    /// # Errors
    /// Those of the input, and of the operator.
    fn read(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream>;
}

/// Operator with the rows, the order and the partitions of its input.
#[derive(Debug)]
pub(super) struct PassThroughExec<R> {
    input: Arc<dyn ExecutionPlan>,
    reader: R,
}

impl<R: ReadInput> PassThroughExec<R> {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, reader: R) -> Self {
        Self { input, reader }
    }

    /// Way in which the input is read.
    pub(super) fn reader(&self) -> &R {
        &self.reader
    }
}

impl<R: ReadInput> DisplayAs for PassThroughExec<R> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", R::NAME)
    }
}

impl<R: ReadInput> ExecutionPlan for PassThroughExec<R> {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) else {
            return internal_err!("{} has one input", R::NAME);
        };
        let reader = self.reader.of_other(&input);
        Ok(Arc::new(Self { input, reader }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.reader.read(&self.input, partition, context)
    }
}

/// Operator with the rows of its input, which refuses to give them twice.
pub(super) type ReadOnceExec = PassThroughExec<ReadOnce>;

/// Returns the operator over `input`.
pub(super) fn read_once(input: Arc<dyn ExecutionPlan>) -> ReadOnceExec {
    let reader = ReadOnce::new(&input);
    PassThroughExec::new(input, reader)
}

/// Record of the partitions that were read.
#[derive(Debug)]
pub(super) struct ReadOnce {
    is_read: Vec<AtomicBool>,
}

impl ReadOnce {
    fn new(input: &Arc<dyn ExecutionPlan>) -> Self {
        let partitions = input.properties().partitioning.partition_count();
        Self { is_read: (0..partitions).map(|_| AtomicBool::new(false)).collect() }
    }
}

impl ReadInput for ReadOnce {
    const NAME: &'static str = "ReadOnceExec";

    fn of_other(&self, input: &Arc<dyn ExecutionPlan>) -> Self {
        Self::new(input)
    }

    fn read(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if self.is_read[partition].swap(true, Ordering::Relaxed) {
            return Err(DataFusionError::ResourcesExhausted(
                "the smaller side of a join without an equality does not fit into the memory of a query".to_owned(),
            ));
        }
        input.execute(partition, context)
    }
}

/// Largest number of rows of a batch. DataFusion compares a batch of less than a tenth of its own size with many rows of the
/// other side at once, so small batches cost little.
const ROWS: usize = 512;

/// Operator with the rows of its input in small batches, with a pause after each.
///
/// A join without an equality compares a batch of its right input with all rows of the left one before it can be
/// interrupted, unless pairs match. A projection repeats a constant for each row of a batch.
pub(super) type SmallBatchesExec = PassThroughExec<SmallBatches>;

/// Returns the operator over `input`, with batches of at most `rows` rows.
pub(super) fn small_batches(input: Arc<dyn ExecutionPlan>, rows: usize) -> SmallBatchesExec {
    PassThroughExec::new(input, SmallBatches { rows })
}

/// Reader of small batches.
#[derive(Debug, Clone, Copy)]
pub(super) struct SmallBatches {
    pub(super) rows: usize,
}

impl ReadInput for SmallBatches {
    const NAME: &'static str = "SmallBatchesExec";

    fn of_other(&self, _: &Arc<dyn ExecutionPlan>) -> Self {
        *self
    }

    fn read(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let metrics = SplitMetrics::new(&ExecutionPlanMetricsSet::new(), partition);
        let batches = BatchSplitStream::new(input.execute(partition, context)?, self.rows, metrics);
        // The pause comes when the join asks for the next batch, and so is done with the one before.
        let batches = batches.then(|batch| async {
            tokio::task::yield_now().await;
            batch
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(input.schema(), batches)))
    }
}

/// Optimizer rule for nested loop joins, which are those without an equality.
///
/// When one runs out of memory, DataFusion 55 reads its left input again, from operators that have given their rows already,
/// and so loses rows without an error (<https://github.com/apache/datafusion/issues/24676>). Here the query fails. The right input is read in [small
/// batches](super::pass_through::SmallBatchesExec), so that the join can be interrupted.
#[derive(Debug)]
pub(super) struct NestedLoopJoinInputs;

impl PhysicalOptimizerRule for NestedLoopJoinInputs {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() else { return Ok(Transformed::no(node)) };
            let left = Arc::new(read_once(Arc::clone(join.left())));
            let right = Arc::new(small_batches(Arc::clone(join.right()), ROWS));
            let inputs: Vec<Arc<dyn ExecutionPlan>> = vec![left, right];
            let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            Ok(Transformed::yes(Arc::clone(&node).replace_children(inputs, keep)?))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "nested_loop_join_inputs"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Size of the constants of an operator from which it reads small batches, and of what it makes of such constants for the rows
/// of one.
const LARGE_CONSTANTS: usize = 64 << 10;
const REPEATED_CONSTANTS: usize = 64 << 20;

/// Optimizer rule for operators with large constants, which they may repeat for each row of a batch: they read [small
/// batches](super::pass_through::SmallBatchesExec).
#[derive(Debug)]
pub(super) struct LargeConstants;

impl PhysicalOptimizerRule for LargeConstants {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let mut bytes = 0;
            node.apply_expressions(&mut |expr| {
                expr.apply(|part| {
                    bytes += part.downcast_ref::<Literal>().map_or(0, |literal| literal.value().size());
                    Ok(TreeNodeRecursion::Continue)
                })
            })?;
            if bytes < LARGE_CONSTANTS {
                return Ok(Transformed::no(node));
            }
            let rows = (REPEATED_CONSTANTS / bytes).max(1);
            let small = |input: &Arc<dyn ExecutionPlan>| Arc::new(small_batches(Arc::clone(input), rows)) as _;
            let inputs: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().map(small).collect();
            let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            Ok(Transformed::yes(Arc::clone(&node).replace_children(inputs, keep)?))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "large_constants"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use datafusion::physical_plan::{collect, displayable};
    use datafusion::prelude::SessionContext;
    use futures::executor::block_on;

    use super::*;
    use crate::state::session_state;
    use crate::{QueryOptions, Session};
    use pairloom_base::error::Result;

    #[test]
    fn a_join_that_does_not_fit_into_its_memory_is_an_error() {
        let session = Arc::new(Session::of_empty_tables([]).unwrap());
        let count = |rows: u64| -> Result<i64> {
            let pairs = format!(
                "SELECT count(*) FROM range(0, {rows}) a JOIN range(0, {rows}) b ON a.value < b.value - {}",
                rows - 2
            );
            let options = QueryOptions { memory: Some(8 << 20), ..QueryOptions::default() };
            block_on(async {
                let mut stream = session.run(&pairs, options, ()).await?;
                let batch = stream.next().await.expect("a row")?;
                Ok(batch.column(0).as_primitive::<Int64Type>().value(0))
            })
        };
        assert_eq!(count(1_000).unwrap(), 1);
        // 16 MB a side.
        let message = count(2_000_000).unwrap_err().to_string();
        assert!(message.contains("join without an equality"), "{message}");
    }

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
        for (join, expected) in
            [("JOIN", 55), ("LEFT JOIN", 55 + 1290), ("RIGHT JOIN", 55 + 990), ("FULL JOIN", 55 + 1290 + 990)]
        {
            let sql = format!(
                "SELECT a.x, b.x AS y FROM generate_series(1, 1300) a(x) {join} generate_series(1, 1000) b(x) ON a.x + b.x > 2290"
            );
            assert_eq!(context.sql(&sql).await.unwrap().count().await.unwrap(), expected, "{join}");
        }
    }
}
