//! Correlated subqueries that would be computed wrongly, and that are refused for it.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan};

use crate::error::{Error, Result};

/// Name of a part of a query that is not supported, and a hint.
type Refusal = (&'static str, &'static str);

/// Hint for rows that are computed for each outer row.
const JOIN: &str = "compute it in a `WITH` query for all outer rows, with `GROUP BY` or `PARTITION BY`, and join that";

/// Refuses correlated subqueries whose rows would be wrong.
///
/// DataFusion 55 computes a correlated subquery once, as a join: it moves the condition on the outer row out of the subquery,
/// above whatever stands between. That is right only above operators that treat the rows of each outer row by themselves.
///
/// # Errors
/// Between the condition and the top of the subquery is one of these, and the hint says how to write it:
/// - A window function.
/// - `unnest`, `DISTINCT ON`, grouping sets or a recursive query.
/// - `OFFSET`, in `EXISTS`.
/// - An aggregate without `GROUP BY`: in `EXISTS`, `IN`, `ANY` or `ALL`, below `HAVING` in a lateral subquery, or below another
///   aggregate or a join. It has a row even for an outer row without any.
pub(super) fn check_correlated(plan: &LogicalPlan) -> Result<()> {
    let mut refusal: Option<Refusal> = None;
    let mut check = |subquery: &LogicalPlan, place| match is_correlated(subquery, place, Above::default()) {
        Ok(_) => TreeNodeRecursion::Continue,
        Err(found) => {
            refusal = Some(found);
            TreeNodeRecursion::Stop
        }
    };
    let visited = plan.apply_with_subqueries(|node| {
        for input in node.inputs() {
            if let LogicalPlan::Subquery(lateral) = input
                && check(&lateral.subquery, Place::Lateral) == TreeNodeRecursion::Stop
            {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                let (subquery, place) = match part {
                    Expr::Exists(exists) => (&exists.subquery, Place::Exists),
                    Expr::InSubquery(within) => (&within.subquery, Place::In),
                    Expr::SetComparison(comparison) => (&comparison.subquery, Place::In),
                    Expr::ScalarSubquery(subquery) => (subquery, Place::Value),
                    _ => return Ok(TreeNodeRecursion::Continue),
                };
                Ok(check(&subquery.subquery, place))
            })
        })
    });
    match (refusal, visited) {
        (Some((what, hint)), _) => Err(Error::usage(format!("SQL: {what} is not supported")).hint(hint)),
        (None, visited) => {
            visited.map(|_| ()).map_err(|error: DataFusionError| Error::internal(format!("SQL: {error}")))
        }
    }
}

/// Place of a subquery.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// Operand of `EXISTS`.
    Exists,
    /// Operand of `IN`, `ANY` or `ALL`.
    In,
    /// In place of a value.
    Value,
    /// In `FROM`.
    Lateral,
}

/// Operators above a part of a subquery, within the subquery.
#[derive(Debug, Clone, Copy, Default)]
struct Above {
    has_filter: bool,
    has_aggregate_or_join: bool,
}

impl Above {
    fn and(self, node: &LogicalPlan) -> Self {
        Self {
            has_filter: self.has_filter || matches!(node, LogicalPlan::Filter(_)),
            has_aggregate_or_join: self.has_aggregate_or_join
                || matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) | LogicalPlan::Join(_)),
        }
    }
}

/// Returns true for a part of a subquery that names columns of an outer row.
///
/// # Errors
/// The part is not supported.
fn is_correlated(node: &LogicalPlan, place: Place, above: Above) -> std::result::Result<bool, Refusal> {
    if let LogicalPlan::Subquery(_) = node {
        // The columns are those of a table within the subquery.
        return Ok(false);
    }
    let mut is_below = false;
    for input in node.inputs() {
        is_below |= is_correlated(input, place, above.and(node))?;
    }
    if is_below {
        check_above_correlated(node, place, above)?;
    }
    Ok(is_below || node.contains_outer_reference())
}

/// Refuses an operator over rows that depend on an outer row.
fn check_above_correlated(node: &LogicalPlan, place: Place, above: Above) -> std::result::Result<(), Refusal> {
    match node {
        LogicalPlan::Window(_) => Err(("a window function in a correlated subquery", JOIN)),
        LogicalPlan::Unnest(_) => Err(("`unnest` in a correlated subquery", JOIN)),
        LogicalPlan::RecursiveQuery(_) => Err(("a recursive query in a correlated subquery", JOIN)),
        LogicalPlan::Distinct(Distinct::On(_)) => Err(("`DISTINCT ON` in a correlated subquery", JOIN)),
        LogicalPlan::Limit(limit) if place == Place::Exists && limit.skip.is_some() => Err((
            "`OFFSET` in a correlated `EXISTS`",
            "compare the number of rows: `(SELECT count(*) FROM b WHERE b.x = a.x) > 1`",
        )),
        LogicalPlan::Aggregate(aggregate) => check_aggregate(aggregate, place, above),
        _ => Ok(()),
    }
}

fn check_aggregate(aggregate: &Aggregate, place: Place, above: Above) -> std::result::Result<(), Refusal> {
    if matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_), ..]) {
        return Err(("`ROLLUP`, `CUBE` or `GROUPING SETS` in a correlated subquery", JOIN));
    }
    if !aggregate.group_expr.is_empty() {
        return Ok(());
    }
    match place {
        Place::Exists | Place::In => Err((
            "an aggregate without `GROUP BY` in a correlated `EXISTS`, `IN`, `ANY` or `ALL`",
            "compare with its value: `a.x = (SELECT count(*) FROM b WHERE b.x = a.x)`",
        )),
        Place::Lateral if above.has_filter => Err((
            "`HAVING` without `GROUP BY` in a lateral subquery",
            "put the condition outside: `FROM a, LATERAL (SELECT count(*) n FROM b WHERE b.x = a.x) WHERE n > 0`",
        )),
        _ if above.has_aggregate_or_join => {
            Err(("an aggregate without `GROUP BY` below another aggregate or a join, in a correlated subquery,", JOIN))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::error::ErrorCategory;
    use crate::sql::testing::text;
    use crate::sql::{OutputFormat, Session};

    const A: &str = "(VALUES (0), (1), (2), (NULL)) a(x)";
    const C: &str = "(VALUES (1, 1), (1, 5), (2, NULL), (NULL, 2), (3, 3)) c(k, v)";

    #[test]
    fn correlated_subqueries_that_would_be_wrong_are_refused() {
        let session = Session::of_empty_tables([]).unwrap();
        let all = format!("FROM {C} WHERE k = x");
        for (sql, wanted) in [
            (format!("SELECT x FROM {A} WHERE EXISTS (SELECT max(v) {all})"), "aggregate without"),
            (format!("SELECT x FROM {A} WHERE x = 7 OR NOT EXISTS (SELECT max(v) {all})"), "aggregate without"),
            (format!("SELECT x FROM {A} WHERE EXISTS (SELECT 1 {all} HAVING count(*) = 0)"), "aggregate without"),
            (format!("SELECT x FROM {A} WHERE x IN (SELECT count(*) {all})"), "aggregate without"),
            (format!("SELECT x FROM {A} WHERE x = ANY (SELECT count(*) {all})"), "aggregate without"),
            (format!("SELECT x FROM {A} WHERE x <> ALL (SELECT count(*) {all})"), "aggregate without"),
            (format!("SELECT x FROM {A} WHERE EXISTS (SELECT count(*) {all} GROUP BY ROLLUP (v))"), "`ROLLUP`"),
            (format!("SELECT x FROM {A} WHERE EXISTS (SELECT v {all} OFFSET 1)"), "`OFFSET` in"),
            (format!("SELECT x FROM {A} WHERE EXISTS (SELECT v {all} LIMIT 3 OFFSET 1)"), "`OFFSET` in"),
            (format!("SELECT x FROM {A} WHERE x IN (SELECT row_number() OVER () {all})"), "window"),
            (format!("SELECT x FROM {A} WHERE EXISTS (SELECT DISTINCT ON (k) v {all} ORDER BY k)"), "`DISTINCT ON`"),
            (format!("SELECT (SELECT sum(r) FROM (SELECT row_number() OVER () r {all})) FROM {A}"), "window"),
            (format!("SELECT (SELECT max(n) FROM (SELECT count(*) n {all})) FROM {A}"), "below another"),
            (format!("SELECT (SELECT DISTINCT count(*) {all}) FROM {A}"), "below another"),
            (format!("SELECT 1 + (SELECT max(n) FROM (SELECT count(*) n {all})) FROM {A}"), "below another"),
            (format!("SELECT x, r FROM {A}, LATERAL (SELECT max(v) OVER () r {all}) l"), "window"),
            (format!("SELECT x, n FROM {A}, LATERAL (SELECT count(*) n {all} HAVING count(*) > 0) l"), "`HAVING`"),
            (format!("SELECT n FROM {A}, LATERAL (SELECT n FROM (SELECT count(*) n {all}) s, {A}) l"), "or a join"),
            (format!("SELECT 1 WHERE EXISTS (SELECT x FROM {A} WHERE EXISTS (SELECT max(v) {all}))"), "without"),
            (format!("EXPLAIN SELECT x FROM {A} WHERE EXISTS (SELECT max(v) {all})"), "aggregate without"),
        ] {
            let error = text(&session, &sql, OutputFormat::Csv).unwrap_err();
            assert_eq!(error.category(), ErrorCategory::Usage, "{sql}: {error}");
            assert!(error.to_string().contains(wanted) && error.hint_text().is_some(), "{sql}: {error}");
        }
    }

    /// Rows by hand.
    #[test]
    fn correlated_subqueries_are_computed_for_each_row() {
        let session = Session::of_empty_tables([]).unwrap();
        let all = format!("FROM {C} WHERE k = x");
        for (sql, wanted) in [
            (format!("SELECT x FROM {A} WHERE EXISTS (SELECT v {all})"), "1 2"),
            (format!("SELECT x FROM {A} WHERE NOT EXISTS (SELECT v {all} LIMIT 2)"), "0 NULL"),
            (format!("SELECT x FROM {A} WHERE x IN (SELECT DISTINCT v {all})"), "1"),
            (format!("SELECT x FROM {A} WHERE EXISTS (SELECT v {all} GROUP BY v HAVING count(*) = 1)"), "1 2"),
            (format!("SELECT x FROM {A} WHERE x = (SELECT count(*) {all})"), "0"),
            (format!("SELECT x FROM {A} WHERE (SELECT count(*) {all}) > 1"), "1"),
            (format!("SELECT x, (SELECT max(v) {all}) m FROM {A}"), "0,NULL 1,5 2,NULL NULL,NULL"),
            (format!("SELECT x, (SELECT count(v) + 1 {all}) m FROM {A}"), "0,1 1,3 2,1 NULL,1"),
            (format!("SELECT x, (SELECT count(*) {all} HAVING count(*) = 0) m FROM {A}"), "0,0 1,NULL 2,NULL NULL,0"),
            (format!("SELECT x, (SELECT count(*) FROM (SELECT DISTINCT v {all})) m FROM {A}"), "0,0 1,2 2,1 NULL,0"),
            // The condition on the outer row is above the window function, or the aggregate.
            (
                format!(
                    "SELECT x FROM {A} WHERE EXISTS (SELECT 1 FROM (SELECT k, row_number() OVER (ORDER BY k) r FROM {C}) s WHERE k = x AND r = 2)"
                ),
                "1",
            ),
            (
                format!("SELECT x FROM {A} WHERE EXISTS (SELECT 1 FROM (SELECT max(v) m FROM {C}) s WHERE m > x + 3)"),
                "0 1",
            ),
            // No outer row is named.
            (format!("SELECT x FROM {A} WHERE EXISTS (SELECT max(v) FROM {C})"), "0 1 2 NULL"),
            (format!("SELECT x FROM {A} WHERE x IN (SELECT row_number() OVER () FROM {A})"), "1 2"),
            (format!("SELECT x, n FROM {A}, LATERAL (SELECT count(*) n {all}) l"), "0,0 1,2 2,1 NULL,0"),
            (format!("SELECT x, n FROM {A}, LATERAL (SELECT count(*) n {all}) l WHERE n > 0"), "1,2 2,1"),
            (format!("SELECT x, v FROM {A}, LATERAL (SELECT DISTINCT v {all}) l"), "1,1 1,5 2,NULL"),
        ] {
            let sql = format!("SELECT * FROM ({sql}) ORDER BY ALL");
            let csv = text(&session, &sql, OutputFormat::Csv).unwrap();
            // A missing value is an empty field, and an empty line is written as two quotes.
            let null = |field: &str| if matches!(field, "" | "\"\"") { "NULL".to_owned() } else { field.to_owned() };
            let row = |line: &str| line.split(',').map(null).collect::<Vec<_>>().join(",");
            assert_eq!(csv.lines().skip(1).map(row).collect::<Vec<_>>().join(" "), wanted, "{sql}");
        }
    }
}
