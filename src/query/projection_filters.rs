//! Filters that stay above projections in which two columns have one name, and above inputs of joins by floating-point numbers.
//!
//! DataFusion 55 looks up the column of a filter by its name when it moves the filter below a projection. Of two columns with
//! one name it takes the last: after a join with a computed key, a condition on a column of the left table filtered the right
//! one. An operator that takes no filters stands above such a projection while they are moved.
//!
//! The same operator stands above the second input of a join by floating-point numbers: DataFusion 55 would filter it by the
//! bits of the numbers of the first. -0.0 and 0.0 have other bits, and are equal in the join.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::pass_through::{PassThroughExec, ReadInput};

/// Start of the names of DataFusion's rules that move filters.
const MOVES_FILTERS: &str = "FilterPushdown";

/// Operator that takes no filters.
type FilterBarrierExec = PassThroughExec<FilterBarrier>;

/// DataFusion's physical optimizer rules, which leave filters above projections with two columns of one name.
pub(super) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = Vec::new();
    for rule in PhysicalOptimizer::new().rules {
        if rule.name().starts_with(MOVES_FILTERS) {
            rules.push(Arc::new(AddBarriers));
            rules.push(rule);
            rules.push(Arc::new(RemoveBarriers));
        } else {
            rules.push(rule);
        }
    }
    rules
}

/// Way in which the operator reads: as its input.
#[derive(Debug)]
struct FilterBarrier;

impl ReadInput for FilterBarrier {
    const NAME: &'static str = "FilterBarrierExec";

    fn of_other(&self, _: &Arc<dyn ExecutionPlan>) -> Self {
        Self
    }

    fn read(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        input.execute(partition, context)
    }
}

fn with_barrier(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(FilterBarrierExec::new(input, FilterBarrier))
}

/// Returns true if a key of the join is a floating-point number. Lists and records of them are compared by their bits.
fn has_float_key(join: &HashJoinExec) -> Result<bool> {
    let schema = join.left().schema();
    for (key, _) in join.on() {
        if key.data_type(&schema)?.is_floating() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Rule that puts the operator above projections, and above the second inputs of joins.
#[derive(Debug)]
struct AddBarriers;

impl PhysicalOptimizerRule for AddBarriers {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let has_equal_names = node.downcast_ref::<ProjectionExec>().is_some_and(|projection| {
                let mut names = BTreeSet::new();
                projection.expr().iter().any(|column| !names.insert(column.alias.as_str()))
            });
            if has_equal_names {
                return Ok(Transformed::yes(with_barrier(node)));
            }
            match node.downcast_ref::<HashJoinExec>() {
                Some(join) if has_float_key(join)? => {
                    let children = vec![Arc::clone(join.left()), with_barrier(Arc::clone(join.right()))];
                    Ok(Transformed::yes(replace_children_if_necessary(node, children)?))
                }
                _ => Ok(Transformed::no(node)),
            }
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "add_filter_barriers"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Rule that removes the operator, which other rules do not know.
#[derive(Debug)]
struct RemoveBarriers;

impl PhysicalOptimizerRule for RemoveBarriers {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            Ok(match node.downcast_ref::<FilterBarrierExec>() {
                Some(_) => Transformed::yes(Arc::clone(node.children()[0])),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "remove_filter_barriers"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
