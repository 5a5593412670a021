//! Subqueries that would be computed wrongly, or not at all, and that are refused for it.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, JoinType, LogicalPlan, Operator};

use pairloom_base::error::{Error, Result};

/// Name of a part of a query that is not supported, and a hint.
type Refusal = (&'static str, &'static str);

/// Hint for rows that are computed for each outer row.
const JOIN: &str = "compute it in a `WITH` query for all outer rows, with `GROUP BY` or `PARTITION BY`, and join that";

/// Refusal of conditions outside of filters and joins.
const OUTSIDE: Refusal = (
    "`EXISTS`, `IN`, `ANY` or `ALL` with a subquery outside of `WHERE`, `HAVING` and `ON`",
    "compare the number of rows: `(SELECT count(*) FROM b WHERE b.x = a.x) > 0`",
);

/// Refuses correlated subqueries whose rows would be wrong, and conditions with subqueries where DataFusion plans none.
///
/// DataFusion 55 computes a correlated subquery once, as a join: it moves the condition on the outer row out of the subquery,
/// above whatever stands between. That is right only above operators that treat the rows of each outer row by themselves.
///
/// # Errors
/// The hint says how to write it. `EXISTS`, `IN`, `ANY` or `ALL` is neither in `WHERE` nor in `HAVING` or `ON`. Or between the
/// condition on the outer row and the top of the subquery is one of these:
/// - A window function.
/// - `unnest`, `DISTINCT ON`, grouping sets or a recursive query.
/// - `OFFSET`, in `EXISTS`.
/// - An aggregate, or `DISTINCT` in a lateral subquery, where the condition is not the equality of a column with a value of its
///   type: rows are grouped by the column, and several of its values may be of one outer row.
/// - An outer join whose other side depends on the outer row.
/// - An aggregate without `GROUP BY`: in `EXISTS`, `IN`, `ANY` or `ALL`, below `HAVING`, or below another
///   aggregate or a join. It has a row even for an outer row without any.
pub(super) fn check_subqueries(plan: &LogicalPlan) -> Result<()> {
    let found = subqueries(plan).map_err(|error| Error::internal(format!("SQL: {error}")))?;
    for (subquery, place, is_planned) in found {
        let checked = dependence(&subquery, place, Above::default());
        let checked = checked.and(if is_planned { Ok(()) } else { Err(OUTSIDE) });
        checked.map_err(|(what, hint)| Error::usage(format!("SQL: {what} is not supported")).hint(hint))?;
    }
    Ok(())
}

/// Subqueries of a plan with their places. False for conditions where DataFusion plans none.
fn subqueries(plan: &LogicalPlan) -> datafusion::error::Result<Vec<(Arc<LogicalPlan>, SubqueryPlace, bool)>> {
    let mut found = Vec::new();
    plan.apply_with_subqueries(|node| {
        for input in node.inputs() {
            if let LogicalPlan::Subquery(lateral) = input {
                found.push((Arc::clone(&lateral.subquery), SubqueryPlace::Lateral, true));
            }
        }
        let has_conditions = matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                let (subquery, place) = match part {
                    Expr::Exists(exists) => (&exists.subquery, SubqueryPlace::Exists),
                    Expr::InSubquery(within) => (&within.subquery, SubqueryPlace::In),
                    Expr::SetComparison(comparison) => (&comparison.subquery, SubqueryPlace::In),
                    Expr::ScalarSubquery(subquery) => (subquery, SubqueryPlace::Value),
                    _ => return Ok(TreeNodeRecursion::Continue),
                };
                found.push((Arc::clone(&subquery.subquery), place, has_conditions || !place.is_condition()));
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// Place of a subquery.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SubqueryPlace {
    /// Operand of `EXISTS`.
    Exists,
    /// Operand of `IN`, `ANY` or `ALL`.
    In,
    /// In place of a value.
    Value,
    /// In `FROM`.
    Lateral,
}

impl SubqueryPlace {
    fn is_condition(self) -> bool {
        matches!(self, Self::Exists | Self::In)
    }
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

/// Way in which rows of a subquery depend on an outer row.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum Dependence {
    None,
    /// Each row is one of a single value of the outer row.
    Equality,
    Other,
}

impl Dependence {
    fn or(self, other: Self) -> Self {
        if self < other { other } else { self }
    }
}

/// Way in which the rows of a part of a subquery depend on an outer row.
///
/// # Errors
/// The part is not supported.
fn dependence(node: &LogicalPlan, place: SubqueryPlace, above: Above) -> std::result::Result<Dependence, Refusal> {
    if let LogicalPlan::Subquery(_) = node {
        // The columns are those of a table within the subquery.
        return Ok(Dependence::None);
    }
    let inputs = node.inputs();
    let inputs = inputs.into_iter().map(|input| dependence(input, place, above.and(node)));
    let inputs = inputs.collect::<std::result::Result<Vec<Dependence>, Refusal>>()?;
    check_join(node, &inputs)?;
    let below = inputs.into_iter().fold(Dependence::None, Dependence::or);
    if below != Dependence::None {
        check_above_correlated(node, below, place, above)?;
    }
    Ok(below.or(own_dependence(node)))
}

/// Way in which the expressions of an operator depend on an outer row.
fn own_dependence(node: &LogicalPlan) -> Dependence {
    match node {
        LogicalPlan::Filter(filter) => {
            let conditions = split_conjunction(&filter.predicate).into_iter().filter(|part| part.contains_outer());
            conditions.fold(Dependence::None, |found, condition| {
                let is_equality = is_equality_of_column(condition, filter.input.schema());
                found.or(if is_equality { Dependence::Equality } else { Dependence::Other })
            })
        }
        _ if node.contains_outer_reference() => Dependence::Other,
        _ => Dependence::None,
    }
}

/// True for a column that equals a value of the outer row, so that no two values of the column equal one of the row.
fn is_equality_of_column(condition: &Expr, schema: &DFSchema) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return false };
    let ((column @ Expr::Column(_), value) | (value, column @ Expr::Column(_))) = (left.as_ref(), right.as_ref())
    else {
        return false;
    };
    let (Ok(column), Ok(of_value)) = (column.get_type(schema), value.get_type(schema)) else { return false };
    // The texts '1' and '01' are one number.
    let is_comparable = column == of_value
        || (column.is_numeric() && of_value.is_numeric())
        || (column.is_string() && of_value.is_string());
    !value.any_column_refs() && is_comparable
}

/// Refuses an operator over rows that depend on an outer row.
fn check_above_correlated(
    node: &LogicalPlan,
    below: Dependence,
    place: SubqueryPlace,
    above: Above,
) -> std::result::Result<(), Refusal> {
    let groups = match node {
        LogicalPlan::Aggregate(aggregate) => Some(aggregate.aggr_expr.is_empty()),
        LogicalPlan::Distinct(_) => Some(true),
        _ => None,
    };
    // In `EXISTS` and `IN`, it does not matter that a row is there twice.
    let ignores_repeats = groups == Some(true) && place.is_condition();
    if groups.is_some() && !ignores_repeats && below == Dependence::Other {
        return Err((
            "a correlated subquery with an aggregate or `DISTINCT` whose condition is not the equality of a column with a value of its type",
            "join the tables, and group by the columns of the outer row",
        ));
    }
    match node {
        LogicalPlan::Window(_) => Err(("a window function in a correlated subquery", JOIN)),
        LogicalPlan::Unnest(_) => Err(("`unnest` in a correlated subquery", JOIN)),
        LogicalPlan::RecursiveQuery(_) => Err(("a recursive query in a correlated subquery", JOIN)),
        LogicalPlan::Distinct(Distinct::On(_)) => Err(("`DISTINCT ON` in a correlated subquery", JOIN)),
        LogicalPlan::Limit(limit) if place == SubqueryPlace::Exists && limit.skip.is_some() => Err((
            "`OFFSET` in a correlated `EXISTS`",
            "compare the number of rows: `(SELECT count(*) FROM b WHERE b.x = a.x) > 1`",
        )),
        LogicalPlan::Aggregate(aggregate) => check_aggregate(aggregate, place, above),
        _ => Ok(()),
    }
}

/// Refuses a join that has rows without a row of the input that depends on the outer row.
fn check_join(node: &LogicalPlan, inputs: &[Dependence]) -> std::result::Result<(), Refusal> {
    let (LogicalPlan::Join(join), [left, right]) = (node, inputs) else { return Ok(()) };
    let is_right = match join.join_type {
        JoinType::Inner => true,
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => *right == Dependence::None,
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => *left == Dependence::None,
        _ => *left == Dependence::None && *right == Dependence::None,
    };
    if is_right { Ok(()) } else { Err(("an outer join of rows that depend on a row of the outer query", JOIN)) }
}

fn check_aggregate(aggregate: &Aggregate, place: SubqueryPlace, above: Above) -> std::result::Result<(), Refusal> {
    if matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_), ..]) {
        return Err(("`ROLLUP`, `CUBE` or `GROUPING SETS` in a correlated subquery", JOIN));
    }
    if !aggregate.group_expr.is_empty() {
        return Ok(());
    }
    match place {
        SubqueryPlace::Exists | SubqueryPlace::In => Err((
            "an aggregate without `GROUP BY` in a correlated `EXISTS`, `IN`, `ANY` or `ALL`",
            "compare with its value: `a.x = (SELECT count(*) FROM b WHERE b.x = a.x)`",
        )),
        SubqueryPlace::Lateral | SubqueryPlace::Value if above.has_filter => Err((
            "`HAVING` without `GROUP BY` in a correlated subquery",
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
    use crate::testing::{rows, text};
    use crate::{OutputFormat, Session};
    use pairloom_base::error::ErrorCategory;

    const A: &str = "(VALUES (0), (1), (2), (NULL)) a(x)";
    const C: &str = "(VALUES (1, 1), (1, 5), (2, NULL), (NULL, 2), (3, 3)) c(k, v)";

    #[test]
    fn subqueries_that_would_be_wrong_are_refused() {
        let session = Session::of_empty_tables([]).unwrap();
        let all = format!("FROM {C} WHERE k = x");
        let inner = format!("(SELECT * {all}) i");
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
            (format!("SELECT (SELECT count(*) FROM {C} WHERE v::int = x) FROM {A}"), "equality of a column"),
            (format!("SELECT (SELECT count(*) FROM {C} WHERE v::text = x) FROM {A}"), "equality of a column"),
            (format!("SELECT (SELECT count(*) FROM (VALUES ('1'), ('01')) t(s) WHERE s = x) FROM {A}"), "of its type"),
            (format!("SELECT (SELECT count(*) FROM {C} WHERE k > x) FROM {A}"), "equality of a column"),
            (format!("SELECT x, v FROM {A}, LATERAL (SELECT DISTINCT v FROM {C} WHERE k > x) l"), "`DISTINCT`"),
            (format!("SELECT x, v FROM {A}, LATERAL (SELECT v FROM {C} WHERE k > x GROUP BY v) l"), "`DISTINCT`"),
            (format!("SELECT (SELECT sum(r) FROM (SELECT row_number() OVER () r {all})) FROM {A}"), "window"),
            (format!("SELECT (SELECT max(n) FROM (SELECT count(*) n {all})) FROM {A}"), "below another"),
            (format!("SELECT (SELECT DISTINCT count(*) {all}) FROM {A}"), "below another"),
            (format!("SELECT 1 + (SELECT max(n) FROM (SELECT count(*) n {all})) FROM {A}"), "below another"),
            (format!("SELECT x, r FROM {A}, LATERAL (SELECT max(v) OVER () r {all}) l"), "window"),
            (format!("SELECT x, n FROM {A}, LATERAL (SELECT count(*) n {all} HAVING count(*) > 0) l"), "`HAVING`"),
            (format!("SELECT n FROM {A}, LATERAL (SELECT n FROM (SELECT count(*) n {all}) s, {A}) l"), "or a join"),
            (format!("SELECT 1 WHERE EXISTS (SELECT x FROM {A} WHERE EXISTS (SELECT max(v) {all}))"), "without"),
            (format!("SELECT (SELECT max(v) {all} HAVING count(*) = 0) FROM {A}"), "`HAVING`"),
            (
                format!("SELECT x FROM {A} WHERE EXISTS (SELECT 1 FROM {C} LEFT JOIN {inner} ON i.k = c.v)"),
                "outer join",
            ),
            (
                format!("SELECT x FROM {A} WHERE EXISTS (SELECT 1 FROM {inner} RIGHT JOIN {C} ON i.k = c.v)"),
                "outer join",
            ),
            (format!("SELECT (SELECT count(*) FROM {C} FULL JOIN {inner} ON i.k = c.v) FROM {A}"), "outer join"),
            (format!("SELECT x, x IN (SELECT v FROM {C}) FROM {A}"), "outside of `WHERE`"),
            (format!("SELECT count(*) FILTER (WHERE x NOT IN (SELECT v FROM {C})) FROM {A}"), "outside of `WHERE`"),
            (format!("SELECT x FROM (SELECT x, x IN (SELECT v FROM {C}) f FROM {A}) WHERE f IS NULL"), "outside of"),
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
            (format!("SELECT x FROM {A} WHERE EXISTS (SELECT DISTINCT v FROM {C} WHERE k > x + 1)"), "0 1"),
            (format!("SELECT x FROM {A} WHERE x = (SELECT count(*) {all})"), "0"),
            (format!("SELECT x FROM {A} WHERE x = (SELECT count(*) FROM {C} WHERE x + 1 = k)"), "1"),
            (format!("SELECT x FROM {A} WHERE (SELECT count(*) {all}) > 1"), "1"),
            (format!("SELECT x, (SELECT max(v) {all}) m FROM {A}"), "0,NULL 1,5 2,NULL NULL,NULL"),
            (format!("SELECT x, (SELECT count(v) + 1 {all}) m FROM {A}"), "0,1 1,3 2,1 NULL,1"),
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
            // A missing value is an empty field, and an empty line is written as two quotes.
            let null = |field: &str| if matches!(field, "" | "\"\"") { "NULL".to_owned() } else { field.to_owned() };
            let row = |line: &str| line.split(',').map(null).collect::<Vec<_>>().join(",");
            let mut rows: Vec<String> = rows(&session, &sql).iter().map(|line| row(line)).collect();
            rows.sort();
            assert_eq!(rows.join(" "), wanted, "{sql}");
        }
    }
}
