//! Refusal of queries whose plans cannot be sent without a change of their meaning.

use datafusion::common::plan_err;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::NullTreatment;
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan, SkipType};

/// Largest number of rows of a limit: messages have 32 bits for it.
const MAX_LIMIT: usize = u32::MAX as usize - 1;

/// Refuses parts of a query that messages between processes leave out.
///
/// # Errors
/// A window function with `FILTER` or `IGNORE NULLS`, a limit of 2³² rows, or a recursive query.
pub(super) fn check_plan(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::RecursiveQuery(_) => return refuse("`WITH RECURSIVE`"),
            LogicalPlan::Limit(limit) => {
                let is_large = |rows: usize| rows > MAX_LIMIT;
                let fetch = matches!(limit.get_fetch_type()?, FetchType::Literal(Some(rows)) if is_large(rows));
                if fetch || matches!(limit.get_skip_type()?, SkipType::Literal(rows) if is_large(rows)) {
                    return refuse("a limit or offset of 2³² rows");
                }
            }
            _ => {}
        }
        node.apply_expressions(|expression| expression.apply(check_expression))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn check_expression(expression: &Expr) -> Result<TreeNodeRecursion> {
    match expression {
        Expr::WindowFunction(window) if window.params.filter.is_some() => {
            refuse("`FILTER` of a window function; write `CASE WHEN … END` in its argument,")
        }
        Expr::WindowFunction(window) if window.params.null_treatment == Some(NullTreatment::IgnoreNulls) => {
            refuse("`IGNORE NULLS`")
        }
        _ => Ok(TreeNodeRecursion::Continue),
    }
}

fn refuse(what: &str) -> Result<TreeNodeRecursion> {
    plan_err!("a cluster does not run {what} so far; leave `--cluster` (or `PAIRLOOM_CLUSTER`) out")
}
