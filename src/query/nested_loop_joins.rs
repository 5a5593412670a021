//! Optimizer rule for nested loop joins: how their inputs are read.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

use crate::read_once::read_once;
use crate::small_batches::small_batches;

/// Optimizer rule for nested loop joins, which are those without an equality.
///
/// When one runs out of memory, DataFusion reads its left input again, from operators that have given their rows already, and
/// so loses rows without an error. Here the query fails. The right input is read in [small
/// batches](super::small_batches::SmallBatchesExec), so that the join can be interrupted.
#[derive(Debug)]
pub(super) struct NestedLoopJoinInputs;

impl PhysicalOptimizerRule for NestedLoopJoinInputs {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() else { return Ok(Transformed::no(node)) };
            let left = Arc::new(read_once(Arc::clone(join.left())));
            let right = Arc::new(small_batches(Arc::clone(join.right())));
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
