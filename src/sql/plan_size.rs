//! Size of a query's plan.

use datafusion::common::plan_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;

use super::query_size::MAX_COLUMNS;

/// Largest number of nodes of a plan. A `WITH` query that is named twice is there twice, so few lines can be a large plan.
const MAX_NODES: usize = 10_000;
/// Largest depth of a plan.
const MAX_DEPTH: usize = 500;
/// Largest number of columns of all nodes together.
const MAX_ALL_COLUMNS: usize = 500_000;

/// Refuses a plan that would take too long to optimise.
///
/// # Errors
/// The plan has more than 10,000 nodes, or more than 500 below each other; or a node has more than 5,000 columns, or all of
/// them have more than 500,000.
pub(super) fn check_plan_size(plan: &LogicalPlan) -> Result<()> {
    let mut waiting = vec![(plan, 1)];
    let (mut nodes, mut columns) = (0, 0);
    while let Some((node, depth)) = waiting.pop() {
        nodes += 1;
        let width = node.schema().fields().len();
        columns += width;
        if width > MAX_COLUMNS {
            return plan_err!("a row of the query has {width} columns, wanted at most {MAX_COLUMNS}");
        }
        if columns > MAX_ALL_COLUMNS {
            return plan_err!("the steps of the query have more than {MAX_ALL_COLUMNS} columns");
        }
        if depth > MAX_DEPTH {
            return plan_err!("the query has more than {MAX_DEPTH} joins or steps below each other");
        }
        if nodes > MAX_NODES {
            return too_many();
        }
        waiting.extend(node.inputs().into_iter().map(|input| (input, depth + 1)));
    }
    // Subqueries within expressions as well.
    let mut nodes = 0;
    plan.apply_with_subqueries(|_| {
        nodes += 1;
        Ok(if nodes > MAX_NODES { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if nodes > MAX_NODES { too_many() } else { Ok(()) }
}

fn too_many() -> Result<()> {
    plan_err!("the query has more than {MAX_NODES} steps, after its `WITH` queries were put in")
}
