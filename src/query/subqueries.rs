//! Subqueries in expressions, which DataFusion computes wrongly or not at all: those in place of a value are computed before
//! the query that has them, those behind `IN`, `ANY` and `ALL` are rewritten, and others are refused.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, ScalarValue, Spans, plan_err};
use datafusion::error::Result as SqlResult;
use datafusion::functions::core::expr_fn::nullif;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{merge_schema, split_conjunction};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, Filter, JoinType, LogicalPlan, LogicalPlanBuilder, Operator,
    Projection, Subquery, lit,
};

use pairloom_base::error::{Error, Result};

/// Subqueries of a plan in place of a value that depend on no outer row and that `is_wanted` accepts, each once. Those
/// within another one are not among them.
pub(super) fn scalar_subqueries(plan: &LogicalPlan, is_wanted: impl Fn(&Subquery) -> bool) -> SqlResult<Vec<Subquery>> {
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
pub(super) fn scalar_value(subquery: &Subquery, rows: &[arrow::array::RecordBatch]) -> SqlResult<ScalarValue> {
    let filled: Vec<_> = rows.iter().filter(|batch| batch.num_rows() > 0).collect();
    match filled.as_slice() {
        [] => ScalarValue::try_from(subquery.subquery.schema().field(0).data_type()),
        [batch] if batch.num_rows() == 1 => ScalarValue::try_from_array(batch.column(0), 0),
        _ => plan_err!("a subquery in place of a value has several rows, wanted one: add `LIMIT 1` or an aggregate"),
    }
}

/// Plan with values in place of subqueries.
pub(super) fn with_scalar_values(plan: LogicalPlan, values: &[(Subquery, ScalarValue)]) -> SqlResult<LogicalPlan> {
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
pub(super) fn with_missing_values(plan: LogicalPlan) -> SqlResult<LogicalPlan> {
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

fn has_subquery(node: &LogicalPlan) -> SqlResult<bool> {
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

fn rewritten(expr: Expr, place: ConditionPlace, schema: &DFSchema) -> SqlResult<Transformed<Expr>> {
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
fn three_valued(within: &InSubquery, place: ConditionPlace, schema: &DFSchema) -> SqlResult<Option<Expr>> {
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
fn values(subquery: &Subquery) -> SqlResult<LogicalPlanBuilder> {
    let column = Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0)));
    // The builder's own operators walk through all subqueries.
    let rows = Projection::try_new(vec![column.alias(VALUE)], Arc::clone(&subquery.subquery))?;
    Ok(LogicalPlanBuilder::from(LogicalPlan::Projection(rows)))
}

/// Rows that satisfy a condition.
fn rows_with(rows: LogicalPlanBuilder, condition: Expr) -> SqlResult<LogicalPlanBuilder> {
    let rows = Filter::try_new(condition, Arc::new(rows.build()?))?;
    Ok(LogicalPlanBuilder::from(LogicalPlan::Filter(rows)))
}

/// `EXISTS` of rows. `is_correlated` says that they depend on the outer row.
fn exists(rows: LogicalPlanBuilder, is_correlated: bool) -> SqlResult<Expr> {
    // One row is enough. Of a correlated subquery, a limit would be one over all outer rows.
    let rows = if is_correlated { rows } else { rows.limit(0, Some(1))? }.build()?;
    let outer_ref_columns = rows.all_out_ref_exprs();
    let subquery = Subquery { subquery: Arc::new(rows), outer_ref_columns, spans: Spans::new() };
    Ok(Expr::Exists(Exists { subquery, negated: false }))
}

/// Expression within a subquery for one of the row around it.
fn of_outer_row(expr: Expr, schema: &DFSchema) -> SqlResult<Expr> {
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

fn depends_on_outer_row<T>() -> SqlResult<T> {
    plan_err!(
        "`x IN (SELECT …)` needs an x without a correlated subquery, `IN` or `EXISTS`: make it a column of a subquery in `FROM`"
    )
}

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

    const D: &str = "(VALUES (1, 1), (1, 5), (2, NULL), (NULL, 2), (3, 3)) c(k, v)";

    #[test]
    fn subqueries_that_would_be_wrong_are_refused() {
        let session = Session::of_empty_tables([]).unwrap();
        let all = format!("FROM {D} WHERE k = x");
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
            (format!("SELECT (SELECT count(*) FROM {D} WHERE v::int = x) FROM {A}"), "equality of a column"),
            (format!("SELECT (SELECT count(*) FROM {D} WHERE v::text = x) FROM {A}"), "equality of a column"),
            (format!("SELECT (SELECT count(*) FROM (VALUES ('1'), ('01')) t(s) WHERE s = x) FROM {A}"), "of its type"),
            (format!("SELECT (SELECT count(*) FROM {D} WHERE k > x) FROM {A}"), "equality of a column"),
            (format!("SELECT x, v FROM {A}, LATERAL (SELECT DISTINCT v FROM {D} WHERE k > x) l"), "`DISTINCT`"),
            (format!("SELECT x, v FROM {A}, LATERAL (SELECT v FROM {D} WHERE k > x GROUP BY v) l"), "`DISTINCT`"),
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
                format!("SELECT x FROM {A} WHERE EXISTS (SELECT 1 FROM {D} LEFT JOIN {inner} ON i.k = c.v)"),
                "outer join",
            ),
            (
                format!("SELECT x FROM {A} WHERE EXISTS (SELECT 1 FROM {inner} RIGHT JOIN {D} ON i.k = c.v)"),
                "outer join",
            ),
            (format!("SELECT (SELECT count(*) FROM {D} FULL JOIN {inner} ON i.k = c.v) FROM {A}"), "outer join"),
            (format!("SELECT x, x IN (SELECT v FROM {D}) FROM {A}"), "outside of `WHERE`"),
            (format!("SELECT count(*) FILTER (WHERE x NOT IN (SELECT v FROM {D})) FROM {A}"), "outside of `WHERE`"),
            (format!("SELECT x FROM (SELECT x, x IN (SELECT v FROM {D}) f FROM {A}) WHERE f IS NULL"), "outside of"),
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
        let all = format!("FROM {D} WHERE k = x");
        for (sql, wanted) in [
            (format!("SELECT x FROM {A} WHERE EXISTS (SELECT v {all})"), "1 2"),
            (format!("SELECT x FROM {A} WHERE NOT EXISTS (SELECT v {all} LIMIT 2)"), "0 NULL"),
            (format!("SELECT x FROM {A} WHERE x IN (SELECT DISTINCT v {all})"), "1"),
            (format!("SELECT x FROM {A} WHERE EXISTS (SELECT v {all} GROUP BY v HAVING count(*) = 1)"), "1 2"),
            (format!("SELECT x FROM {A} WHERE EXISTS (SELECT DISTINCT v FROM {D} WHERE k > x + 1)"), "0 1"),
            (format!("SELECT x FROM {A} WHERE x = (SELECT count(*) {all})"), "0"),
            (format!("SELECT x FROM {A} WHERE x = (SELECT count(*) FROM {D} WHERE x + 1 = k)"), "1"),
            (format!("SELECT x FROM {A} WHERE (SELECT count(*) {all}) > 1"), "1"),
            (format!("SELECT x, (SELECT max(v) {all}) m FROM {A}"), "0,NULL 1,5 2,NULL NULL,NULL"),
            (format!("SELECT x, (SELECT count(v) + 1 {all}) m FROM {A}"), "0,1 1,3 2,1 NULL,1"),
            (format!("SELECT x, (SELECT count(*) FROM (SELECT DISTINCT v {all})) m FROM {A}"), "0,0 1,2 2,1 NULL,0"),
            // The condition on the outer row is above the window function, or the aggregate.
            (
                format!(
                    "SELECT x FROM {A} WHERE EXISTS (SELECT 1 FROM (SELECT k, row_number() OVER (ORDER BY k) r FROM {D}) s WHERE k = x AND r = 2)"
                ),
                "1",
            ),
            (
                format!("SELECT x FROM {A} WHERE EXISTS (SELECT 1 FROM (SELECT max(v) m FROM {D}) s WHERE m > x + 3)"),
                "0 1",
            ),
            // No outer row is named.
            (format!("SELECT x FROM {A} WHERE EXISTS (SELECT max(v) FROM {D})"), "0 1 2 NULL"),
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
