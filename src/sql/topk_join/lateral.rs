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
    Subquery,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use super::node::{MEASURE, TopKJoin};
use crate::sql::vectors::VectorMeasure;

/// Rule that plans a lateral subquery of the k nearest rows as a [`TopKJoin`].
///
/// The subquery has the form `SELECT … FROM … [WHERE …] ORDER BY measure(a, b) LIMIT k`, where one vector is the outer
/// query's. Its order has the nearest row first, and its conditions may name columns of the outer query. Rows without a
/// vector are in no list. Other lateral joins stay as they are.
#[derive(Debug)]
pub(in crate::sql) struct LateralTopK;

impl AnalyzerRule for LateralTopK {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewrite = |plan: LogicalPlan| match &plan {
            LogicalPlan::Join(join) => Ok(match rewritten(join)? {
                Some(rewritten) => Transformed::yes(rewritten),
                None => Transformed::no(plan),
            }),
            _ => Ok(Transformed::no(plan)),
        };
        plan.transform_up_with_subqueries(rewrite).data()
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
    k: usize,
    /// The call of the measure.
    call: Expr,
    /// Vector of the outer query, and vector of the rows.
    vectors: [Expr; 2],
    /// Rows that are ordered.
    rows: &'p LogicalPlan,
}

/// Top-k join in place of a lateral join, if it has the form.
fn rewritten(join: &Join) -> Result<Option<LogicalPlan>> {
    let is_true = |filter: &Expr| matches!(filter, Expr::Literal(ScalarValue::Boolean(Some(true)), _));
    if join.join_type != JoinType::Inner || !join.on.is_empty() || !join.filter.as_ref().is_none_or(is_true) {
        return Ok(None);
    }
    let Some((subquery, alias)) = lateral_subquery(&join.right) else { return Ok(None) };
    let Some(found) = nearest_rows(&subquery.subquery)? else { return Ok(None) };
    let Some((rows, condition)) = without_outer_conditions(found.rows)? else { return Ok(None) };
    let queries = join.left.as_ref();
    if has_common_column(queries, &rows) {
        return Ok(None);
    }
    let condition = condition.map(with_own_columns).transpose()?;
    let [query, item] = found.vectors.clone();
    let vectors = [with_own_columns(query)?, item];
    let node = TopKJoin::try_new([queries.clone(), rows], found.measure, found.k, vectors, condition)?;
    let joined = LogicalPlan::Extension(Extension { node: Arc::new(node) });
    let outer = queries.schema().iter().map(|field| Expr::Column(Column::from(field)));
    let mut columns: Vec<Expr> = outer.collect();
    for (expr, name) in &found.selected {
        let expr = with_own_columns(with_measure_column(expr.clone(), &found.call)?)?;
        columns.push(expr.alias_qualified(alias.clone(), name));
    }
    Ok(Some(LogicalPlanBuilder::from(joined).project(columns)?.build()?))
}

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

/// Parts of a subquery of the k nearest rows; `None` if it has another form.
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
    let Some(k) = limit.map(literal_limit).transpose()?.flatten() else { return Ok(None) };
    let [order] = sort.expr.as_slice() else { return Ok(None) };
    let (inner, rows) = match sort.input.as_ref() {
        LogicalPlan::Projection(inner) => (Some(inner), inner.input.as_ref()),
        other => (None, other),
    };
    let resolve = |expr: &Expr| through(expr.clone(), inner);
    let call = without_alias(resolve(&order.expr)?);
    let Some((measure, vectors)) = measure_of(&call) else { return Ok(None) };
    if order.asc == measure.is_similarity() || contains_outer(&vectors[1]) {
        return Ok(None);
    }
    let schema = subquery.schema();
    let names = schema.fields().iter().map(|field| field.name().clone());
    let selected = match (outer, inner) {
        (Some(outer), _) => outer.expr.iter().map(resolve).collect::<Result<Vec<_>>>()?,
        (None, Some(inner)) => inner.expr.clone(),
        (None, None) => schema.iter().map(|field| Expr::Column(Column::from(field))).collect(),
    };
    let selected = selected.into_iter().map(without_alias).zip(names).collect();
    Ok(Some(NearestRows { selected, measure, k, call, vectors, rows }))
}

/// k of `LIMIT k`, if it is a number and there is no `OFFSET`.
fn literal_limit(limit: &Limit) -> Result<Option<usize>> {
    Ok(match (limit.get_skip_type()?, limit.get_fetch_type()?) {
        (SkipType::Literal(0), FetchType::Literal(Some(k))) if k > 0 => Some(k),
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
        (true, false) => Some((measure, [a.clone(), b.clone()])),
        (false, true) => Some((measure, [b.clone(), a.clone()])),
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

/// Rows without the conditions that name the outer query, and these conditions; `None` if the outer query is named
/// elsewhere.
fn without_outer_conditions(rows: &LogicalPlan) -> Result<Option<(LogicalPlan, Option<Expr>)>> {
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
    Ok((!is_elsewhere).then_some((rows, outer)))
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
