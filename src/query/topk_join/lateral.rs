//! Rewrite of `LATERAL (SELECT … ORDER BY distance(…) LIMIT k)` into a top-k join.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Expr, Extension, FetchType, Filter, Join, JoinType, Limit, LogicalPlan, LogicalPlanBuilder, Projection, SkipType,
    SortExpr, Subquery, when,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use super::node::{ListShape, MEASURE, RANK, TopKJoin};
use crate::result_files::external;
use crate::vectors::VectorMeasure;
use pairloom_base::error::Error;

/// Rule that plans a lateral subquery of the k nearest rows as a [`TopKJoin`].
///
/// The subquery has the form `SELECT … FROM … [WHERE …] ORDER BY measure(a, b) [, …] LIMIT k [OFFSET m]`, where one vector
/// is the outer query's. Its order has the nearest row first, and its conditions may name columns of the outer query. Rows
/// without a vector are in no list. The join is an inner one, or a left one without a condition.
///
/// Other lateral subqueries are refused with the reason.
#[derive(Debug)]
pub(crate) struct LateralTopK;

impl AnalyzerRule for LateralTopK {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewrite = |plan: LogicalPlan| match &plan {
            // The join around it has the outer query.
            LogicalPlan::Join(join) if begins_with_lateral(&join.left) => Ok(Transformed::no(plan)),
            LogicalPlan::Join(join) => Ok(match planned(join)? {
                Some(planned) => Transformed::yes(planned),
                None => Transformed::no(plan),
            }),
            _ => Ok(Transformed::no(plan)),
        };
        let plan = plan.transform_up_with_subqueries(rewrite).data()?;
        let mut is_left = false;
        plan.apply_with_subqueries(|plan| {
            is_left |= lateral_subquery(plan).is_some_and(|(subquery, _)| !subquery.outer_ref_columns.is_empty());
            Ok(if is_left { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if is_left { not_beside_its_table() } else { Ok(plan) }
    }

    fn name(&self) -> &'static str {
        "lateral_topk"
    }
}

/// Parts of a subquery of the k nearest rows.
struct NearestRows<'p> {
    /// Selected expressions, with the names of their columns.
    selected: Vec<(Expr, String)>,
    measure: VectorMeasure,
    /// The call of the measure.
    call: Expr,
    /// Vector of the outer query, and vector of the rows.
    vectors: [Expr; 2],
    /// Order of rows with equal measures.
    ties: Vec<SortExpr>,
    /// Length of a list, and rows that are left out.
    limit: (usize, usize),
    /// Rows that are ordered.
    rows: &'p LogicalPlan,
}

/// Plan in place of a join whose right side is a lateral subquery, or begins with one; `None` for another join.
///
/// `FROM a, LATERAL (…) b JOIN c ON …` joins b and c first. Those are the rows of `FROM a CROSS JOIN LATERAL (…) b JOIN c
/// ON …`, if the join keeps no row of c alone.
///
/// # Errors
/// The subquery has another form, or it is in another join.
fn planned(join: &Join) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Join(right) = join.right.as_ref() else { return rewritten(join) };
    if !begins_with_lateral(&right.left) {
        return Ok(None);
    }
    let is_cross = join.join_type == JoinType::Inner && join.on.is_empty() && join.filter.is_none();
    let keeps_left =
        matches!(right.join_type, JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti);
    if !is_cross || !keeps_left {
        return not_beside_its_table();
    }
    let with_sides = |of: &Join, left: LogicalPlan, right: &Arc<LogicalPlan>| {
        let (left, right, on, filter) = (Arc::new(left), Arc::clone(right), of.on.clone(), of.filter.clone());
        let joined =
            Join::try_new(left, right, on, filter, of.join_type, of.join_constraint, of.null_equality, of.null_aware)?;
        Ok(match planned(&joined)? {
            Some(planned) => planned,
            None => LogicalPlan::Join(joined),
        })
    };
    let nearest = with_sides(join, join.left.as_ref().clone(), &right.left)?;
    with_sides(right, nearest, &right.right).map(Some)
}

/// True for a lateral subquery, and for a join that has one first.
fn begins_with_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) => begins_with_lateral(&join.left),
        other => lateral_subquery(other).is_some(),
    }
}

/// Error of a lateral subquery without its outer query on the left.
fn not_beside_its_table<T>() -> Result<T> {
    let message = "SQL: `LATERAL` is first in a join without the table that it reads, which is not supported";
    Err(external(Error::usage(message).hint("write `FROM a CROSS JOIN LATERAL (…) b JOIN c ON …`")))
}

/// Top-k join in place of a lateral join; `None` for another join.
///
/// # Errors
/// The subquery has another form.
fn rewritten(join: &Join) -> Result<Option<LogicalPlan>> {
    let Some((subquery, alias)) = lateral_subquery(&join.right) else { return Ok(None) };
    let Some(found) = nearest_rows(&subquery.subquery)? else {
        return refused("has another order than that of a measure of vectors of both sides");
    };
    let is_true = |filter: &&Expr| matches!(filter, Expr::Literal(ScalarValue::Boolean(Some(true)), _));
    let equal = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    let conditions = equal.chain(join.filter.iter().filter(|filter| !is_true(filter)).cloned());
    let join_condition = conjunction(conditions);
    let is_outer = match (join.join_type, &join_condition) {
        (JoinType::Inner, _) => false,
        (JoinType::Left, None) => true,
        (JoinType::Left, Some(condition)) => {
            return refused(&format!("is in a left join with the condition `{condition}`; `ON true` is planned"));
        }
        (other, _) => return refused(&format!("is in a join of the kind {other}; inner and left joins are planned")),
    };
    let (rows, condition) = without_outer_conditions(found.rows)?;
    let queries = join.left.as_ref();
    if has_common_column(queries, &rows) {
        return refused("reads a table under the name that it has outside; two aliases tell them apart");
    }
    let condition = condition.map(with_own_columns).transpose()?;
    let [query, item] = found.vectors.clone();
    let vectors = [with_own_columns(query)?, item];
    let (k, skip) = found.limit;
    let node = TopKJoin::try_new([queries.clone(), rows], found.measure, k, vectors, condition)?;
    let node = node.with_ties(found.ties).with_shape(ListShape { k, skip, is_outer })?;
    let joined = LogicalPlan::Extension(Extension { node: Arc::new(node) });
    let outer = queries.schema().iter().map(|field| Expr::Column(Column::from(field)));
    let mut columns: Vec<Expr> = outer.collect();
    for (expr, name) in &found.selected {
        let expr = with_own_columns(with_measure_column(expr.clone(), &found.call)?)?;
        let is_query = |column: &Column| queries.schema().maybe_index_of_column(column).is_some();
        let expr = match &expr {
            Expr::Column(column) if !is_query(column) => expr,
            // A constant, too, is missing where no row is.
            _ if is_outer => when(Expr::Column(Column::from_name(RANK)).is_not_null(), expr).end()?,
            _ => expr,
        };
        columns.push(expr.alias_qualified(alias.clone(), name));
    }
    let joined = LogicalPlanBuilder::from(joined).project(columns)?;
    Ok(Some(match join_condition {
        Some(condition) => joined.filter(condition)?.build()?,
        None => joined.build()?,
    }))
}

/// Error of a lateral subquery of another form.
fn refused<T>(reason: &str) -> Result<T> {
    let error = Error::usage(format!("SQL: `LATERAL` {reason}, which is not supported"));
    Err(external(error.hint(format!("write {LATERAL_FORM}, or join the tables"))))
}

/// The form that is planned.
const LATERAL_FORM: &str = "`LATERAL (SELECT … FROM b ORDER BY cosine_distance(b.v, a.v), b.id LIMIT 3) b`";

/// Subquery of a lateral join, with its alias.
fn lateral_subquery(right: &LogicalPlan) -> Option<(&Subquery, Option<TableReference>)> {
    match right {
        LogicalPlan::Subquery(subquery) => Some((subquery, None)),
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            LogicalPlan::Subquery(subquery) => Some((subquery, Some(alias.alias.clone()))),
            _ => None,
        },
        _ => None,
    }
}

/// Parts of a subquery of the k nearest rows; `None` if its order has no measure of a vector of the outer query.
///
/// # Errors
/// It has such a measure in a form that is not planned.
fn nearest_rows(subquery: &LogicalPlan) -> Result<Option<NearestRows<'_>>> {
    // A projection above or below the limit leaves out columns that only the order needs.
    let (mut outer, mut limit, mut plan) = (None, None, subquery);
    let sort = loop {
        plan = match plan {
            LogicalPlan::Projection(of) if outer.is_none() => {
                outer = Some(of);
                &*of.input
            }
            LogicalPlan::Limit(of) if limit.is_none() => {
                limit = Some(of);
                &*of.input
            }
            LogicalPlan::Sort(sort) => break sort,
            _ => return Ok(None),
        };
    };
    let (inner, rows) = match sort.input.as_ref() {
        LogicalPlan::Projection(inner) => (Some(inner), inner.input.as_ref()),
        other => (None, other),
    };
    let resolve = |expr: &Expr| through(expr.clone(), inner);
    let mut terms = Vec::new();
    for term in &sort.expr {
        terms.push(SortExpr { expr: without_alias(resolve(&term.expr)?), ..term.clone() });
    }
    if !terms.iter().any(|term| has_outer_measure(&term.expr)) {
        return Ok(None);
    }
    let first = terms.remove(0);
    let Some((measure, vectors)) = measure_of(&first.expr) else {
        return refused(&format!("has the order `{}`; a measure of a vector of each side comes first", first.expr));
    };
    if first.asc == measure.is_similarity() {
        return refused("begins with the farthest; distances are ordered by `ASC`, similarities by `DESC`");
    }
    let call = first.expr;
    // The measure again decides nothing.
    terms.retain(|term| term.expr != call);
    if let Some(term) = terms.iter().find(|term| contains_outer(&term.expr)) {
        return refused(&format!("is ordered by `{}` of the outer query after the measure", term.expr));
    }
    let Some(limit) = limit.map(literal_limit).transpose()?.flatten() else {
        return refused("has no `LIMIT`");
    };
    let schema = subquery.schema();
    let names = schema.fields().iter().map(|field| field.name().clone());
    let selected = match (outer, inner) {
        (Some(outer), _) => outer.expr.iter().map(resolve).collect::<Result<Vec<_>>>()?,
        (None, Some(inner)) => inner.expr.clone(),
        (None, None) => schema.iter().map(|field| Expr::Column(Column::from(field))).collect(),
    };
    let selected = selected.into_iter().map(without_alias).zip(names).collect();
    Ok(Some(NearestRows { selected, measure, call, vectors, ties: terms, limit, rows }))
}

/// True if a measure of a vector of the outer query is in an expression.
fn has_outer_measure(expr: &Expr) -> bool {
    let is_measure = |expr: &Expr| {
        matches!(expr, Expr::ScalarFunction(call) if VectorMeasure::from_name(call.func.name()).is_some())
            && contains_outer(expr)
    };
    expr.exists(|expr| Ok(is_measure(expr))).unwrap_or(false)
}

/// Length of the list of `LIMIT k OFFSET m`, which has the rows that are left out, and m; `None` without a number k.
fn literal_limit(limit: &Limit) -> Result<Option<(usize, usize)>> {
    Ok(match (limit.get_skip_type()?, limit.get_fetch_type()?) {
        (SkipType::Literal(_), FetchType::Literal(Some(0))) => Some((0, 0)),
        (SkipType::Literal(skip), FetchType::Literal(Some(k))) => Some((k.saturating_add(skip), skip)),
        _ => None,
    })
}

/// Measure of a call and its vectors, those of the outer query first. One of them, and only one, is the outer query's.
fn measure_of(call: &Expr) -> Option<(VectorMeasure, [Expr; 2])> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = call else { return None };
    let measure = VectorMeasure::from_name(func.name())?;
    let [a, b] = args.as_slice() else { return None };
    let is_outer = |expr: &Expr| contains_outer(expr) && expr.column_refs().is_empty();
    match (is_outer(a), is_outer(b)) {
        (true, false) if !contains_outer(b) => Some((measure, [a.clone(), b.clone()])),
        (false, true) if !contains_outer(a) => Some((measure, [b.clone(), a.clone()])),
        _ => None,
    }
}

fn contains_outer(expr: &Expr) -> bool {
    expr.contains_outer()
}

fn without_alias(expr: Expr) -> Expr {
    match expr {
        Expr::Alias(alias) => without_alias(*alias.expr),
        other => other,
    }
}

/// Expression on the input of a projection in place of one on its output.
fn through(expr: Expr, projection: Option<&Projection>) -> Result<Expr> {
    let Some(projection) = projection else { return Ok(expr) };
    let replace = |expr: Expr| {
        let place = match &expr {
            Expr::Column(column) => projection.schema.maybe_index_of_column(column),
            _ => None,
        };
        Ok(match place {
            Some(place) => {
                Transformed::new(without_alias(projection.expr[place].clone()), true, TreeNodeRecursion::Jump)
            }
            None => Transformed::no(expr),
        })
    };
    expr.transform_down(replace).data()
}

/// Rows without the conditions that name the outer query, and these conditions.
///
/// # Errors
/// The outer query is named elsewhere.
fn without_outer_conditions(rows: &LogicalPlan) -> Result<(LogicalPlan, Option<Expr>)> {
    let (rows, outer) = match rows {
        LogicalPlan::Filter(filter) => {
            let (outer, own): (Vec<&Expr>, Vec<&Expr>) =
                split_conjunction(&filter.predicate).into_iter().partition(|part| contains_outer(part));
            let input = Arc::clone(&filter.input);
            let rows = match conjunction(own.into_iter().cloned()) {
                Some(own) => LogicalPlan::Filter(Filter::try_new(own, input)?),
                None => Arc::unwrap_or_clone(input),
            };
            (rows, conjunction(outer.into_iter().cloned()))
        }
        other => (other.clone(), None),
    };
    let mut is_elsewhere = false;
    rows.apply_with_subqueries(|plan| {
        is_elsewhere |= plan.contains_outer_reference();
        Ok(if is_elsewhere { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if is_elsewhere {
        return refused("names the outer query outside of its order, its `WHERE` and its columns");
    }
    Ok((rows, outer))
}

/// True if both plans have a column of the same qualified name.
fn has_common_column(a: &LogicalPlan, b: &LogicalPlan) -> bool {
    a.schema().columns().iter().any(|column| b.schema().maybe_index_of_column(column).is_some())
}

/// Columns of the outer query as columns of the join.
fn with_own_columns(expr: Expr) -> Result<Expr> {
    let replace = |expr: Expr| {
        Ok(match expr {
            Expr::OuterReferenceColumn(_, column) => Transformed::yes(Expr::Column(column)),
            other => Transformed::no(other),
        })
    };
    expr.transform_up(replace).data()
}

/// The measure that the join computes in place of its call.
fn with_measure_column(expr: Expr, call: &Expr) -> Result<Expr> {
    let replace = |expr: Expr| {
        Ok(if expr == *call {
            Transformed::new(Expr::Column(Column::from_name(MEASURE)), true, TreeNodeRecursion::Jump)
        } else {
            Transformed::no(expr)
        })
    };
    expr.transform_down(replace).data()
}
