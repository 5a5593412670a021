//! Subqueries behind `IN`, `ANY` and `ALL` or in place of a value, which DataFusion takes for false where they are missing.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, ScalarValue, Spans, plan_err};
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::nullif;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Projection, Subquery, lit,
};

use crate::scalar_subqueries::is_never_missing;

/// Name of the column of a subquery behind `IN`, `ANY` or `ALL`. A column of the same table in the outer query has another one.
const VALUE: &str = "in#value";

/// Plan in which subqueries are missing where SQL says so.
///
/// `x IN (SELECT y FROM b)` is missing if no y equals x, and either x or some y is missing. DataFusion 55 computes the mark of a
/// semi join, which is false then. Below `NOT`, `IS NULL`, a comparison or `CASE` that is another row, so there it becomes
/// ```sql
/// EXISTS (SELECT y FROM b WHERE y = x)
/// OR (x IS NULL AND EXISTS (SELECT y FROM b) OR EXISTS (SELECT y FROM b WHERE y IS NULL)) AND NULL
/// ```
/// It stays as it is where neither can be missing by the schema, and where a missing condition is as good as a false one.
///
/// A correlated subquery in place of a value is missing if it has no row, which DataFusion overlooks if its column is never
/// missing, such as `count(*)` with `GROUP BY`. It becomes `nullif(…, NULL)`.
///
/// The column of a subquery behind `ANY` or `ALL` gets a name of its own: DataFusion takes `a.x > ANY (SELECT a.x FROM a)` for a
/// comparison of the column with itself.
///
/// # Errors
/// The plan is not valid. Or x has a subquery that depends on an outer row, or one behind `IN` or `EXISTS`.
pub(super) fn with_missing_values(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut is_changed = false;
    let rewritten = plan.transform_up_with_subqueries(|node| {
        if has_subquery(&node)? {
            let schema = merge_schema(&node.inputs());
            let is_condition = matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
            let place = if is_condition { ConditionPlace::Condition } else { ConditionPlace::Value };
            let names = NamePreserver::new(&node);
            let node = node.map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = rewritten(expr, place, &schema)?;
                is_changed |= rewritten.transformed;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            });
            return node?.map_data(LogicalPlan::recompute_schema);
        }
        // A column that can be missing now is one further out, too.
        if is_changed { Ok(Transformed::yes(node.recompute_schema()?)) } else { Ok(Transformed::no(node)) }
    });
    rewritten.data()
}

fn has_subquery(node: &LogicalPlan) -> Result<bool> {
    let mut is_found = false;
    node.apply_expressions(|expr| {
        is_found |= expr.exists(|part| {
            Ok(matches!(part, Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::ScalarSubquery(_)))
        })?;
        Ok(if is_found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(is_found)
}

/// Place of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ConditionPlace {
    /// Condition that all rows satisfy.
    Condition,
    /// Below `OR` in such a condition.
    Alternative,
    /// Anywhere else: missing and false are different values.
    Value,
}

fn rewritten(expr: Expr, place: ConditionPlace, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let place = match (&expr, place) {
        (Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) | Expr::InSubquery(_), place) => place,
        (
            Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }),
            ConditionPlace::Condition | ConditionPlace::Alternative,
        ) => ConditionPlace::Alternative,
        _ => ConditionPlace::Value,
    };
    match expr {
        Expr::InSubquery(within) => {
            let parts = rewritten(*within.expr, ConditionPlace::Value, schema)?;
            let within = InSubquery { expr: Box::new(parts.data), ..within };
            match three_valued(&within, place, schema)? {
                Some(expr) => Ok(Transformed::yes(expr)),
                None => Ok(Transformed::new(Expr::InSubquery(within), parts.transformed, TreeNodeRecursion::Continue)),
            }
        }
        Expr::SetComparison(comparison) => {
            let parts = rewritten(*comparison.expr, ConditionPlace::Value, schema)?;
            let subquery = Arc::new(values(&comparison.subquery)?.build()?);
            let subquery = Subquery { subquery, ..comparison.subquery };
            let comparison = SetComparison { expr: Box::new(parts.data), subquery, ..comparison };
            Ok(Transformed::yes(Expr::SetComparison(comparison)))
        }
        Expr::ScalarSubquery(ref subquery) if !subquery.outer_ref_columns.is_empty() && is_never_missing(subquery) => {
            Ok(Transformed::yes(nullif(expr, lit(ScalarValue::Null))))
        }
        expr => expr.map_children(|part| rewritten(part, place, schema)),
    }
}

/// `IN` as an expression that is missing where SQL says so; nothing if it is right as it is.
fn three_valued(within: &InSubquery, place: ConditionPlace, schema: &DFSchema) -> Result<Option<Expr>> {
    let InSubquery { expr, subquery, negated } = within;
    let is_right = match place {
        // An anti join that knows missing values, of one column of each side.
        ConditionPlace::Condition => !negated || (subquery.outer_ref_columns.is_empty() && expr.any_column_refs()),
        ConditionPlace::Alternative => !negated,
        ConditionPlace::Value => false,
    };
    // A column of a row further out is refused by DataFusion.
    if is_right || expr.contains_outer() {
        return Ok(None);
    }
    let is_correlated = !subquery.outer_ref_columns.is_empty();
    let rows = || values(subquery);
    let column = Expr::Column(Column::new_unqualified(VALUE));
    let mut unknown = None;
    if expr.nullable(schema).unwrap_or(true) {
        unknown = Some(expr.as_ref().clone().is_null().and(exists(rows()?, is_correlated)?));
    }
    if subquery.subquery.schema().field(0).is_nullable() {
        let has_missing = exists(rows_with(rows()?, column.clone().is_null())?, is_correlated)?;
        unknown = Some(unknown.into_iter().fold(has_missing, |has_missing, unknown| unknown.or(has_missing)));
    }
    // The anti join takes any missing value for one of the operands, also one of the condition on the outer row.
    if unknown.is_none() && place != ConditionPlace::Condition {
        return Ok(None);
    }
    let found = rows_with(rows()?, column.eq(of_outer_row(expr.as_ref().clone(), schema)?))?;
    let found = exists(found, is_correlated || expr.any_column_refs())?;
    let missing = lit(ScalarValue::Boolean(None));
    Ok(Some(match unknown {
        // As a condition of its own, only `NOT IN` comes here.
        None => !found,
        Some(unknown) if *negated => (!found).and((!unknown).or(missing)),
        Some(unknown) => found.or(unknown.and(missing)),
    }))
}

/// Rows of a subquery, whose column has the name [`VALUE`].
fn values(subquery: &Subquery) -> Result<LogicalPlanBuilder> {
    let column = Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0)));
    // The builder's own operators walk through all subqueries.
    let rows = Projection::try_new(vec![column.alias(VALUE)], Arc::clone(&subquery.subquery))?;
    Ok(LogicalPlanBuilder::from(LogicalPlan::Projection(rows)))
}

/// Rows that satisfy a condition.
fn rows_with(rows: LogicalPlanBuilder, condition: Expr) -> Result<LogicalPlanBuilder> {
    let rows = Filter::try_new(condition, Arc::new(rows.build()?))?;
    Ok(LogicalPlanBuilder::from(LogicalPlan::Filter(rows)))
}

/// `EXISTS` of rows. `is_correlated` says that they depend on the outer row.
fn exists(rows: LogicalPlanBuilder, is_correlated: bool) -> Result<Expr> {
    // One row is enough. Of a correlated subquery, a limit would be one over all outer rows.
    let rows = if is_correlated { rows } else { rows.limit(0, Some(1))? }.build()?;
    let outer_ref_columns = rows.all_out_ref_exprs();
    let subquery = Subquery { subquery: Arc::new(rows), outer_ref_columns, spans: Spans::new() };
    Ok(Expr::Exists(Exists { subquery, negated: false }))
}

/// Expression within a subquery for one of the row around it.
fn of_outer_row(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.transform_up(|part| match part {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_) => depends_on_outer_row(),
        Expr::ScalarSubquery(subquery) if !subquery.outer_ref_columns.is_empty() => depends_on_outer_row(),
        part => Ok(Transformed::no(part)),
    })
    .data()
}

fn depends_on_outer_row<T>() -> Result<T> {
    plan_err!(
        "`x IN (SELECT …)` needs an x without a correlated subquery, `IN` or `EXISTS`: make it a column of a subquery in `FROM`"
    )
}

#[cfg(test)]
mod tests {
    use crate::testing::{rows, text};
    use crate::{OutputFormat, Session};
    use pairloom_base::runtime::NamedFile;

    const A: &str = "(VALUES (0), (1), (2), (NULL)) a(x)";
    const B: &str = "(VALUES (1), (NULL)) b(y)";
    const C: &str = "(VALUES (1, 1), (2, NULL), (NULL, 2), (3, 3)) c(k, v)";

    /// Rows of `a` that satisfy a condition, as text, in order.
    fn of_a(session: &Session, condition: &str) -> String {
        rows(session, &format!("SELECT coalesce(x::text, 'NULL') x FROM {A} WHERE {condition} ORDER BY x")).join(" ")
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
            (format!("(x IN {later}) IS NULL"), "0 1"),
            // Within one another.
            (format!("x NOT IN (SELECT y FROM {B} WHERE y NOT IN {all} OR y = 1)"), "0 2"),
            (format!("(x IN (SELECT k FROM {C} WHERE (v IN {all}) IS NULL)) IS NULL"), "0 1 NULL"),
        ] {
            assert_eq!(of_a(&session, &condition), wanted, "{condition}");
        }
    }

    /// Rows by hand.
    #[test]
    fn in_with_an_operand_that_names_no_column_is_missing() {
        let session = Session::of_empty_tables([]).unwrap();
        let of = |condition: &str| format!("(SELECT v FROM {C} WHERE {condition})");
        let (all, some, none) = (of("true"), of("v > 0"), of("v > 10"));
        let every = "0 1 2 NULL";
        for (condition, wanted) in [
            (format!("3 NOT IN {all}"), ""),
            (format!("9 NOT IN {all}"), ""),
            (format!("9 NOT IN {some}"), every),
            (format!("NULL NOT IN {some}"), ""),
            (format!("NULL NOT IN {none}"), every),
            (format!("3 IN {all}"), every),
            (format!("1 NOT IN (SELECT count(*) FROM {C} WHERE k = x GROUP BY k)"), "0 NULL"),
            (format!("(9 IN {all}) IS NULL"), every),
            (format!("(3 IN {all}) IS NULL"), ""),
            (format!("(SELECT max(y) FROM {B}) + 8 NOT IN {all}"), ""),
            (format!("(SELECT max(y) FROM {B}) + 8 NOT IN {some}"), every),
        ] {
            assert_eq!(of_a(&session, &condition), wanted, "{condition}");
        }
        let count = format!("(SELECT count(*) FROM {C} WHERE k = x)");
        let sql = format!("SELECT x FROM {A} WHERE {count} NOT IN {all} OR x = 5");
        let error = text(&session, &sql, OutputFormat::Csv).unwrap_err();
        assert!(error.to_string().contains("needs an x without a correlated subquery"), "{error}");
    }

    /// Rows by hand.
    #[test]
    fn correlated_subqueries_without_a_row_are_missing() {
        let session = Session::of_empty_tables([]).unwrap();
        let count = |rest: &str| format!("(SELECT count(*) FROM {C} WHERE k = x {rest})");
        let (grouped, plain) = (count("GROUP BY k"), count(""));
        for (condition, wanted) in [
            (format!("{grouped} IS NULL"), "0 NULL"),
            (format!("({grouped} < 5) IS NULL"), "0 NULL"),
            (format!("{grouped} IS NOT NULL"), "1 2"),
            (format!("{plain} IS NULL"), ""),
            (format!("{plain} = 0"), "0 NULL"),
        ] {
            assert_eq!(of_a(&session, &condition), wanted, "{condition}");
        }
    }

    /// Rows by hand.
    #[test]
    fn a_subquery_over_the_same_table_compares_its_own_column() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, "id,i\n1,1\n2,2\n3,3\n4,\n5,0\n").unwrap();
        let session = Session::of_empty_tables([]).unwrap();
        session.add_file(NamedFile { name: "a".to_owned(), path }).unwrap();
        for (sql, wanted) in [
            ("SELECT id FROM a WHERE id >= ALL (SELECT id FROM a)", "5"),
            ("SELECT id FROM a WHERE a.id > ANY (SELECT a.id FROM a)", "2 3 4 5"),
            ("SELECT id FROM a WHERE i <> ALL (SELECT i FROM a WHERE id > 2 AND i IS NOT NULL)", "1 2"),
            ("SELECT id FROM a WHERE i NOT IN (SELECT i FROM a WHERE id > 2 AND i IS NOT NULL) OR id = 4", "1 2 4"),
            ("SELECT a.id FROM a, a w WHERE w.id = 3 AND a.i NOT IN (SELECT a.i FROM a WHERE a.id < w.id)", "3 5"),
            ("SELECT w.id FROM a JOIN a w ON a.id = w.id AND a.i NOT IN (SELECT i FROM a WHERE i > 1)", "1 5"),
            ("SELECT w.id FROM a LEFT JOIN a w ON a.id = w.id AND w.i IN (SELECT i FROM a) WHERE w.id > 3", "5"),
        ] {
            let mut rows = rows(&session, sql);
            rows.sort_unstable();
            assert_eq!(rows.join(" "), wanted, "{sql}");
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
