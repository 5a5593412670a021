//! `IN` with a subquery, where it matters that it is missing and not false.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit, when,
};
use std::sync::Arc;

/// Plan in which `IN` with a subquery is missing where SQL says so.
///
/// `x IN (SELECT y FROM b)` is missing if no y equals x and either x or some y is missing. DataFusion 55 computes the mark of a
/// semi join, which is false then. Below `NOT`, `IS NULL`, a comparison or `CASE` that is another row, so there it becomes
/// ```sql
/// CASE WHEN x IN (SELECT y FROM b) THEN true
///      WHEN x IS NULL AND EXISTS (SELECT y FROM b) OR EXISTS (SELECT y FROM b WHERE y IS NULL) THEN NULL
///      ELSE false END
/// ```
/// It stays as it is where neither can be missing by the schema, and where a missing condition is as good as a false one.
///
/// # Errors
/// The plan is not valid.
pub(super) fn with_missing_in(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| {
        if !has_in_subquery(&node)? {
            return Ok(Transformed::no(node));
        }
        let schema = merge_schema(&node.inputs());
        let place = if matches!(node, LogicalPlan::Filter(_)) { Place::Condition } else { Place::Value };
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(Transformed::yes(name.restore(rewritten(expr, place, &schema)?)))
        })?
        .map_data(LogicalPlan::recompute_schema)
    });
    Ok(rewritten?.data)
}

fn has_in_subquery(node: &LogicalPlan) -> Result<bool> {
    let mut is_found = false;
    node.apply_expressions(|expr| {
        is_found |= expr.exists(|part| Ok(matches!(part, Expr::InSubquery(_))))?;
        Ok(if is_found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(is_found)
}

/// Place of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// Condition that all rows satisfy.
    Condition,
    /// Below `OR` in such a condition.
    Alternative,
    /// Anywhere else: missing and false are different values.
    Value,
}

fn rewritten(expr: Expr, place: Place, schema: &DFSchema) -> Result<Expr> {
    let place = match (&expr, place) {
        (Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }), place) => place,
        (Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }), Place::Condition | Place::Alternative) => {
            Place::Alternative
        }
        (Expr::InSubquery(_), place) => place,
        _ => Place::Value,
    };
    let Expr::InSubquery(InSubquery { expr, subquery, negated }) = expr else {
        return Ok(expr.map_children(|part| Ok(Transformed::yes(rewritten(part, place, schema)?)))?.data);
    };
    let is_correlated = !subquery.outer_ref_columns.is_empty();
    let is_right = match place {
        // An anti join that knows missing values, of one column.
        Place::Condition => !negated || !is_correlated,
        Place::Alternative => !negated,
        Place::Value => false,
    };
    let expr = Box::new(rewritten(*expr, Place::Value, schema)?);
    let column = Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0)));
    let mut unknown = None;
    if !is_right {
        if expr.nullable(schema).unwrap_or(true) {
            let rows = LogicalPlanBuilder::from(Arc::clone(&subquery.subquery));
            unknown = Some(expr.clone().is_null().and(exists(rows, &subquery)?));
        }
        if subquery.subquery.schema().field(0).is_nullable() {
            let rows = LogicalPlanBuilder::from(Arc::clone(&subquery.subquery)).filter(column.is_null())?;
            let has_missing = exists(rows, &subquery)?;
            unknown = Some(unknown.map_or(has_missing.clone(), |unknown| unknown.or(has_missing)));
        }
    }
    match unknown {
        None => Ok(Expr::InSubquery(InSubquery { expr, subquery, negated })),
        Some(unknown) => when(Expr::InSubquery(InSubquery { expr, subquery, negated: false }), lit(!negated))
            .when(unknown, lit(ScalarValue::Boolean(None)))
            .otherwise(lit(negated)),
    }
}

/// `EXISTS` of the rows of a subquery.
fn exists(rows: LogicalPlanBuilder, of: &Subquery) -> Result<Expr> {
    // One row is enough. Of a correlated subquery, a limit would be one over all outer rows.
    let rows = if of.outer_ref_columns.is_empty() { rows.limit(0, Some(1))? } else { rows };
    let subquery = Subquery {
        subquery: Arc::new(rows.build()?),
        outer_ref_columns: of.outer_ref_columns.clone(),
        spans: of.spans.clone(),
    };
    Ok(Expr::Exists(Exists { subquery, negated: false }))
}

#[cfg(test)]
mod tests {
    use crate::sql::testing::text;
    use crate::sql::{OutputFormat, Session};

    const A: &str = "(VALUES (0), (1), (2), (NULL)) a(x)";
    const B: &str = "(VALUES (1), (NULL)) b(y)";
    const C: &str = "(VALUES (1, 1), (2, NULL), (NULL, 2), (3, 3)) c(k, v)";

    /// Rows of `a` as text, in order.
    fn rows(session: &Session, condition: &str) -> String {
        let sql = format!("SELECT coalesce(x::text, 'NULL') x FROM {A} WHERE {condition} ORDER BY x");
        let csv = text(session, &sql, OutputFormat::Csv).unwrap_or_else(|error| panic!("{sql}: {error}"));
        csv.lines().skip(1).collect::<Vec<_>>().join(" ")
    }

    /// Rows by hand.
    #[test]
    fn in_with_missing_values_is_missing() {
        let session = Session::of_empty_tables([]).unwrap();
        let (all, none) = (format!("(SELECT y FROM {B})"), format!("(SELECT y FROM {B} WHERE y = 5)"));
        let of_row = |condition: &str| format!("(SELECT v FROM {C} WHERE {condition})");
        let (same, later, sum) = (of_row("k = x"), of_row("k > x"), of_row("k + x = 3"));
        for (condition, wanted) in [
            (format!("x IN {all}"), "1"),
            (format!("x NOT IN {all}"), ""),
            (format!("NOT (x IN {all})"), ""),
            (format!("x NOT IN {none}"), "0 1 2 NULL"),
            (format!("x IN {all} OR x = 2"), "1 2"),
            (format!("x NOT IN {all} OR x = 2"), "2"),
            (format!("x NOT IN {none} OR x = 2"), "0 1 2 NULL"),
            (format!("NOT (x IN {all} AND x IS NOT NULL)"), "NULL"),
            (format!("(x IN {all}) IS NULL"), "0 2 NULL"),
            (format!("(x IN {none}) IS NULL"), ""),
            (format!("(x IN {all}) IS NOT TRUE"), "0 2 NULL"),
            (format!("(x NOT IN {all}) IS NOT DISTINCT FROM false"), "1"),
            (format!("(x IN {all}) = true"), "1"),
            (format!("coalesce(x NOT IN {all}, true)"), "0 2 NULL"),
            (format!("CASE WHEN x NOT IN {all} THEN false ELSE x IN {all} END"), "1"),
            (format!("x + 1 NOT IN {all} OR x IS NULL"), "NULL"),
            // Of each row, another subquery.
            (format!("x NOT IN {same}"), "0 NULL"),
            (format!("x NOT IN {later}"), "2 NULL"),
            (format!("x NOT IN {sum}"), "0 2 NULL"),
            (format!("x NOT IN {same} OR x = 1"), "0 1 NULL"),
            (format!("(x IN {same}) IS NULL"), "2"),
            (format!("(x IN {later}) IS NULL"), "1"),
            // Within one another.
            (format!("x NOT IN (SELECT y FROM {B} WHERE y NOT IN {all} OR y = 1)"), "0 2"),
            (format!("(x IN (SELECT k FROM {C} WHERE (v IN {all}) IS NULL)) IS NULL"), "0 1 NULL"),
        ] {
            assert_eq!(rows(&session, &condition), wanted, "{condition}");
        }
        // A column of a subquery that ends up in a condition.
        for (condition, wanted) in [("NOT f", ""), ("f IS NULL", "0 2 NULL"), ("f", "1")] {
            let sql =
                format!("SELECT x FROM (SELECT x, x IN {all} f FROM {A}) WHERE {condition} ORDER BY x NULLS LAST");
            let csv = text(&session, &sql, OutputFormat::Csv).unwrap();
            assert_eq!(
                csv.lines().skip(1).collect::<Vec<_>>().join(" ").replace("\"\"", "NULL"),
                wanted,
                "{condition}"
            );
        }
    }

    /// Each level has the one below three times.
    #[test]
    fn conditions_within_one_another_stay_small_or_are_refused() {
        let session = Session::of_empty_tables([]).unwrap();
        let nested = |depth| {
            let innermost = format!("SELECT y FROM {B}");
            (0..depth).fold(innermost, |inner, _| format!("SELECT y FROM {B} WHERE y NOT IN ({inner}) OR y = 7"))
        };
        assert!(text(&session, &nested(3), OutputFormat::Csv).is_ok());
        let error = text(&session, &nested(15), OutputFormat::Csv).unwrap_err();
        assert!(error.to_string().contains("more than 10000 steps"), "{error}");
    }
}
