//! Subqueries in place of a value. They are computed before the query that has them, and their values take their places.
//!
//! DataFusion 55 takes the value of a subquery for one that is never missing if its column never is, though there may be no
//! row: <https://github.com/apache/datafusion/issues/24513>. And a plan that is sent to a cluster has values only.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

/// Subqueries of a plan in place of a value, each once. Those within one of them are not among them.
pub(super) fn scalar_subqueries(plan: &LogicalPlan) -> Result<Vec<Subquery>> {
    let mut found = Vec::new();
    collect(plan, &mut found)?;
    Ok(found)
}

fn collect(plan: &LogicalPlan, found: &mut Vec<Subquery>) -> Result<()> {
    plan.apply(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                match part {
                    Expr::ScalarSubquery(subquery) if !found.contains(subquery) => found.push(subquery.clone()),
                    Expr::InSubquery(within) => collect(&within.subquery.subquery, found)?,
                    Expr::Exists(exists) => collect(&exists.subquery.subquery, found)?,
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

/// Value of a subquery with these rows; missing if there are none.
///
/// # Errors
/// There are several rows.
pub(super) fn scalar_value(subquery: &Subquery, rows: &[arrow::array::RecordBatch]) -> Result<ScalarValue> {
    let filled: Vec<_> = rows.iter().filter(|batch| batch.num_rows() > 0).collect();
    match filled.as_slice() {
        [] => ScalarValue::try_from(subquery.subquery.schema().field(0).data_type()),
        [batch] if batch.num_rows() == 1 => ScalarValue::try_from_array(batch.column(0), 0),
        _ => plan_err!("a subquery in place of a value has several rows, expected one: add `LIMIT 1` or an aggregate"),
    }
}

/// Plan with values in place of subqueries.
pub(super) fn with_scalar_values(plan: LogicalPlan, values: &[(Subquery, ScalarValue)]) -> Result<LogicalPlan> {
    let replaced = plan.transform_down_with_subqueries(|plan| {
        let names = NamePreserver::new(&plan);
        let plan = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let replaced = expr.transform_down(|expr| {
                let value = match &expr {
                    Expr::ScalarSubquery(subquery) => values.iter().find(|(known, _)| known == subquery),
                    _ => None,
                };
                Ok(match value {
                    Some((_, value)) => Transformed::yes(Expr::Literal(value.clone(), None)),
                    None => Transformed::no(expr),
                })
            })?;
            Ok(replaced.update_data(|expr| name.restore(expr)))
        })?;
        if plan.transformed { plan.map_data(LogicalPlan::recompute_schema) } else { Ok(plan) }
    })?;
    Ok(replaced.data)
}
