//! Values of subqueries that stand in place of a value, computed before the query that has them.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

/// Subqueries of a plan in place of a value that depend on no outer row and that `is_wanted` accepts, each once. Those
/// within another one are not among them.
pub(super) fn scalar_subqueries(plan: &LogicalPlan, is_wanted: impl Fn(&Subquery) -> bool) -> Result<Vec<Subquery>> {
    let mut found: Vec<Subquery> = Vec::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarSubquery(subquery) = expr
                    && subquery.outer_ref_columns.is_empty()
                    && is_wanted(subquery)
                    && !found.contains(subquery)
                {
                    found.push(subquery.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// True for a subquery whose column DataFusion takes for one without missing values, though there may be no row.
pub(super) fn is_never_missing(subquery: &Subquery) -> bool {
    subquery.subquery.schema().fields().first().is_some_and(|field| !field.is_nullable())
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
        _ => plan_err!("a subquery in place of a value has several rows, wanted one: add `LIMIT 1` or an aggregate"),
    }
}

/// Plan with values in place of subqueries.
pub(super) fn with_scalar_values(plan: LogicalPlan, values: &[(Subquery, ScalarValue)]) -> Result<LogicalPlan> {
    let replaced = plan.transform_up_with_subqueries(|plan| {
        let names = NamePreserver::new(&plan);
        let plan = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let replaced = expr.transform_up(|expr| {
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
