//! Operators whose rows are those of their input, and the input of nested loop joins that is read once.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};

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

/// Optimizer rule for nested loop joins, which are those without an equality.
///
/// When one runs out of memory, DataFusion 55 reads its left input again, from operators that have given their rows already,
/// and so loses rows without an error (<https://github.com/apache/datafusion/issues/24676>). Here the query fails.
#[derive(Debug)]
pub(super) struct NestedLoopJoinInputs;

impl PhysicalOptimizerRule for NestedLoopJoinInputs {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() else { return Ok(Transformed::no(node)) };
            let left = Arc::new(read_once(Arc::clone(join.left())));
            let inputs: Vec<Arc<dyn ExecutionPlan>> = vec![left, Arc::clone(join.right())];
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use futures::executor::block_on;

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
}
