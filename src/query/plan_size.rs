//! Size of a query's plan.

use datafusion::common::plan_err;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;

use super::cast_types::check_cast;

/// Largest number of nodes of a plan. A `WITH` query that is named twice is there twice, so few lines can be a large plan.
const MAX_NODES: usize = 10_000;
/// Largest depth of a plan.
const MAX_DEPTH: usize = 500;
/// Largest sum of the squares of the numbers of columns of the nodes: optimising a plan takes seconds for as much.
const MAX_SQUARES: usize = 100_000_000;

/// Refuses a plan that would take too long to optimise, or too much memory in a cast.
///
/// # Errors
/// The plan has more than 10,000 nodes, or more than 500 below each other; or the squares of the numbers of their columns,
/// without those of tables, come to more than 10⁸. Or a cast makes values of a fixed size of more than 128 KiB.
pub(super) fn check_plan_size(plan: &LogicalPlan) -> Result<()> {
    let mut waiting = vec![(plan, 1)];
    let (mut nodes, mut squares) = (0, 0);
    while let Some((node, depth)) = waiting.pop() {
        nodes += 1;
        let width = node.schema().fields().len();
        // A query may name few columns of a table of many.
        squares += if is_table(node) { 0 } else { width * width };
        if squares > MAX_SQUARES {
            return plan_err!(
                "the query has too many steps of {width} columns: the squares of the numbers of columns add up to more than {MAX_SQUARES}"
            );
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
    plan.apply_with_subqueries(|node| {
        nodes += 1;
        node.apply_expressions(|expression| {
            expression.apply(|part| check_cast(part).map(|()| TreeNodeRecursion::Continue))
        })?;
        Ok(if nodes > MAX_NODES { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if nodes > MAX_NODES { too_many() } else { Ok(()) }
}

/// True for a table, possibly under another name.
fn is_table(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_table(&alias.input),
        _ => false,
    }
}

fn too_many() -> Result<()> {
    plan_err!("the query has more than {MAX_NODES} steps, after its `WITH` queries were put in")
}
