//! Optimizer rule that lets operators pause which compute for long between two rows of their inputs.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;

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
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
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
