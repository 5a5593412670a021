//! Operators whose rows are those of their input.

use std::fmt::{self, Debug};
use std::sync::Arc;

use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
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
