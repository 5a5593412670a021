//! Names of columns and of subqueries in `FROM`.
//!
//! An expression without `AS` is named as the query writes it: DataFusion names `avg(rsum)` by the full names of its columns,
//! `avg(all_runs.summary.rsum)`.
//!
//! The common column of a `JOIN … USING (x)` gets the name of a table in `WHERE` and in the `ON` of later joins, where DataFusion
//! 55 finds it in two tables. The dialect has this join without outer rows only, so both have one value.
//!
//! A subquery without a name gets one. Otherwise DataFusion 55 takes `x` in `SELECT -x x, x y FROM (SELECT 1 x) ORDER BY x` for
//! the column of the subquery (as in <https://github.com/apache/datafusion/issues/8391>), and then for the result's column `y`,
//! which is computed in the same way.
//!
//! Each computed column of an inner projection has a second name of its own. DataFusion 55 drops a projection that is equal to
//! its input, although `SELECT x + 1 x FROM (SELECT x + 1 x FROM t)` adds two
//! (<https://github.com/apache/datafusion/pull/24686>).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan, Projection};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Ident, JoinConstraint, JoinOperator, ObjectNamePart, Query, Select, SelectItem, SetExpr,
    Statement, TableAlias, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};

/// Functions whose result can be several columns, which get their own names.
const EXPANDED: [&str; 1] = ["unnest"];

/// Names all expressions without a name in the lists of all `SELECT`s of a statement, and subqueries without a name in `FROM`.
pub(super) fn name_columns(statement: &mut Statement) {
    let _ = statement.visit(&mut ColumnNamer { subqueries: 0 });
}

/// Visitor that names the columns of queries, and subqueries.
struct ColumnNamer {
    subqueries: usize,
}

impl VisitorMut for ColumnNamer {
    type Break = ();

    // Before the subqueries, whose new names are no part of the query as it is written.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        name_body(&mut query.body);
        ControlFlow::Continue(())
    }

    // After the subqueries in `FROM`, which then have names.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        name_common_columns(&mut query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { lateral: false, alias: alias @ None, .. } = table {
            self.subqueries += 1;
            let name = Ident::with_quote('"', format!("subquery#{}", self.subqueries));
            *alias = Some(TableAlias { explicit: true, name, columns: vec![], at: None });
        }
        ControlFlow::Continue(())
    }
}

/// Names tables of the common columns of joins, in a query without its subqueries.
fn name_common_columns(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            let mut common = CommonColumns::default();
            select.from.iter_mut().for_each(|tables| common.of_joins(tables));
            if let Some(condition) = &mut select.selection {
                let _ = condition.visit(&mut common);
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            name_common_columns(left);
            name_common_columns(right);
        }
        _ => {}
    }
}

/// Common columns of joins, each with the name of a table, and a visitor that writes them into an expression.
#[derive(Default)]
struct CommonColumns {
    columns: BTreeMap<String, Vec<Ident>>,
    /// Subqueries around the place.
    subqueries: usize,
}

impl CommonColumns {
    fn of_joins(&mut self, tables: &mut TableWithJoins) {
        self.of_table(&mut tables.relation);
        for join in &mut tables.joins {
            self.of_table(&mut join.relation);
            let table = table_name(&join.relation);
            match &mut join.join_operator {
                JoinOperator::Join(JoinConstraint::Using(columns))
                | JoinOperator::Inner(JoinConstraint::Using(columns)) => {
                    for column in columns {
                        if let ([ObjectNamePart::Identifier(column)], Some(table)) = (column.0.as_slice(), &table) {
                            let name = table.iter().chain([column]).cloned().collect();
                            self.columns.entry(folded(column)).or_insert(name);
                        }
                    }
                }
                JoinOperator::Join(JoinConstraint::On(condition))
                | JoinOperator::Inner(JoinConstraint::On(condition))
                | JoinOperator::Left(JoinConstraint::On(condition))
                | JoinOperator::LeftOuter(JoinConstraint::On(condition))
                | JoinOperator::Right(JoinConstraint::On(condition))
                | JoinOperator::RightOuter(JoinConstraint::On(condition))
                | JoinOperator::FullOuter(JoinConstraint::On(condition))
                | JoinOperator::LeftSemi(JoinConstraint::On(condition))
                | JoinOperator::LeftAnti(JoinConstraint::On(condition)) => {
                    let _ = condition.visit(self);
                }
                _ => {}
            }
        }
    }

    fn of_table(&mut self, table: &mut TableFactor) {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = table {
            self.of_joins(table_with_joins);
        }
    }
}

impl VisitorMut for CommonColumns {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.subqueries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.subqueries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.subqueries == 0
            && let Expr::Identifier(ident) = expr
            && let Some(name) = self.columns.get(&folded(ident))
        {
            *expr = Expr::CompoundIdentifier(name.clone());
        }
        ControlFlow::Continue(())
    }
}

/// Name by which a query knows a table; `None` for a function without one.
fn table_name(table: &TableFactor) -> Option<Vec<Ident>> {
    match table {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(vec![alias.name.clone()])
        }
        TableFactor::Table { name, args: None, .. } => name.0.iter().map(|part| part.as_ident().cloned()).collect(),
        _ => None,
    }
}

/// Names the columns of a query without its subqueries.
fn name_body(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => name_select(select),
        SetExpr::SetOperation { left, right, .. } => {
            name_body(left);
            name_body(right);
        }
        _ => {}
    }
}

/// Names the expressions of one `SELECT`. Of two that would get one name, each keeps its table names.
fn name_select(select: &mut Select) {
    let short: Vec<Option<String>> = select.projection.iter().map(|item| item_name(item, true)).collect();
    let full: Vec<Option<String>> = select.projection.iter().map(|item| item_name(item, false)).collect();
    let is_unique = |names: &[Option<String>], at: usize| names.iter().filter(|name| **name == names[at]).count() == 1;
    let chosen: Vec<Option<String>> =
        (0..short.len()).map(|at| if is_unique(&short, at) { short[at].clone() } else { full[at].clone() }).collect();
    let mut used = BTreeSet::new();
    for (at, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        if !is_named(expr) {
            continue;
        }
        if let Some(name) = chosen[at].clone().filter(|name| is_unique(&chosen, at) && used.insert(name.clone())) {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', name) };
        }
    }
}

/// Name of an entry of a list; `None` if it is several columns or DataFusion names it.
fn item_name(item: &SelectItem, is_short: bool) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(ident)) => Some(folded(ident)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(folded),
        SelectItem::UnnamedExpr(expr) if is_named(expr) => Some(expression_name(expr, is_short)),
        _ => None,
    }
}

/// Returns true if an expression without `AS` is named here.
///
/// A cast is part of the name: DataFusion leaves it out, so that `ORDER BY rank` would sort the texts of `rank::varchar`.
fn is_named(expr: &Expr) -> bool {
    match unbracketed(expr) {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => false,
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => !std::ptr::eq(unbracketed(expr), expr),
        other => !is_expanded(other),
    }
}

/// Returns true for a function whose result can be several columns, also within casts.
fn is_expanded(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_expanded(inner),
        Expr::Function(call) => EXPANDED.iter().any(|name| call.name.to_string().eq_ignore_ascii_case(name)),
        _ => false,
    }
}

/// Expression without the brackets around it.
fn unbracketed(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unbracketed(inner),
        _ => expr,
    }
}

/// Text of an expression, in the letter case that SQL reads; short if columns have no table names.
fn expression_name(expr: &Expr, is_short: bool) -> String {
    let mut expr = unbracketed(expr).clone();
    let mut tables = TableNames::default();
    let _ = expr.visit(&mut tables);
    // `a.rsum - b.rsum` would become `rsum - rsum`.
    let _ = expr.visit(&mut Shortener { is_short: is_short && tables.0.len() <= 1 });
    match expr {
        Expr::Identifier(ident) => ident.value,
        other => other.to_string(),
    }
}

/// Names of tables before the columns of an expression.
#[derive(Default)]
struct TableNames(BTreeSet<String>);

impl VisitorMut for TableNames {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr {
            let tables = &parts[..parts.len().saturating_sub(1)];
            self.0.insert(tables.iter().map(folded).collect::<Vec<_>>().join("."));
        }
        if let Some(tables) = tables_of_access(expr) {
            self.0.insert(tables.iter().map(|table| folded(table)).collect::<Vec<_>>().join("."));
        }
        ControlFlow::Continue(())
    }
}

/// Names before the column of an access: `a` of `a.settings['x']`. `None` for other expressions.
fn tables_of_access(expr: &Expr) -> Option<Vec<&Ident>> {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return None };
    let Expr::Identifier(first) = &**root else { return None };
    let dots = access_chain.iter().map_while(|access| match access {
        AccessExpr::Dot(Expr::Identifier(ident)) => Some(ident),
        _ => None,
    });
    let mut names: Vec<&Ident> = std::iter::once(first).chain(dots).collect();
    names.pop();
    (!names.is_empty()).then_some(names)
}

/// Visitor that writes names as SQL reads them, without table names if `is_short`.
struct Shortener {
    is_short: bool,
}

impl VisitorMut for Shortener {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let fold = |ident: &mut Ident| ident.value = folded(ident);
        let tables = if self.is_short { tables_of_access(expr).map_or(0, |tables| tables.len()) } else { 0 };
        match expr {
            Expr::CompoundFieldAccess { root, access_chain } if tables > 0 => {
                if let Some(AccessExpr::Dot(column)) = access_chain.drain(..tables).next_back() {
                    **root = column;
                }
            }
            Expr::CompoundIdentifier(parts) if self.is_short => {
                if let Some(mut last) = parts.pop() {
                    fold(&mut last);
                    *expr = Expr::Identifier(last);
                }
            }
            Expr::CompoundIdentifier(parts) => parts.iter_mut().for_each(fold),
            Expr::Identifier(ident) => fold(ident),
            Expr::Function(call) => {
                for part in &mut call.name.0 {
                    if let ObjectNamePart::Identifier(ident) = part {
                        fold(ident);
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Name that SQL reads: lower case without quotes.
fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// First name that stands there a second time.
pub(super) fn repeated_name<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let mut seen = BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

/// Name of DataFusion's rule before which this one has to run: it merges projections, and drops equal ones.
const MERGE: &str = "optimize_projections";

/// Optimizer rule that gives computed columns below a projection a second name.
#[derive(Debug)]
struct ProjectionNames;

/// Rules with distinct projections over one another.
pub(super) fn with_projection_names(
    mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    // Other rules may bring projections together, so they have to be distinct at each time that some are merged.
    let merges = rules.iter().position(|rule| rule.name() == MERGE).unwrap_or(rules.len());
    rules.insert(merges, Arc::new(ProjectionNames));
    rules
}

impl OptimizerRule for ProjectionNames {
    fn name(&self) -> &'static str {
        "projection_names"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut count = 0;
        plan.transform_down_with_subqueries(|plan| {
            let LogicalPlan::Projection(outer) = &plan else { return Ok(Transformed::no(plan)) };
            let LogicalPlan::Projection(inner) = outer.input.as_ref() else { return Ok(Transformed::no(plan)) };
            let mut exprs = inner.expr.clone();
            let mut is_changed = false;
            for expr in &mut exprs {
                if let PlanExpr::Alias(alias) = expr
                    && !matches!(*alias.expr, PlanExpr::Alias(_) | PlanExpr::Column(_))
                {
                    count += 1;
                    is_changed = true;
                    *alias.expr = (*alias.expr).clone().alias(format!("{}#{count}", alias.name));
                }
            }
            if !is_changed {
                return Ok(Transformed::no(plan));
            }
            let inner = Projection::try_new_with_schema(exprs, Arc::clone(&inner.input), Arc::clone(&inner.schema))?;
            let inner = Arc::new(LogicalPlan::Projection(inner));
            let outer = Projection::try_new_with_schema(outer.expr.clone(), inner, Arc::clone(&outer.schema))?;
            Ok(Transformed::yes(LogicalPlan::Projection(outer)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::{parse, sql_of_mut};

    #[test]
    fn expressions_are_named_as_they_are_written() {
        for (items, named) in [
            ("AVG(s.RSUM)", r#"AVG(s.RSUM) AS "avg(rsum)""#),
            ("count(*), Method, s.method", r#"count(*) AS "count(*)", Method, s.method"#),
            (
                "round(avg(rsum), 2) AS mean, max(x)::int",
                r#"round(avg(rsum), 2) AS mean, max(x)::INT AS "max(x)::INT""#,
            ),
            ("s.x::int, (s.y), \"X y\" + 1", r#"s.x::INT AS "x::INT", (s.y) AS "y", "X y" + 1 AS """X y"" + 1""#),
            // One name for two columns.
            ("avg(a.x), avg(b.x)", r#"avg(a.x) AS "avg(a.x)", avg(b.x) AS "avg(b.x)""#),
            ("a.x::int, b.x", r#"a.x::INT AS "x::INT", b.x"#),
            ("a.x::int, b.x::int", r#"a.x::INT AS "a.x::INT", b.x::INT AS "b.x::INT""#),
            ("unnest(x)::int, *", "unnest(x)::INT, *"),
            ("a.Settings['X']", r#"a.Settings['X'] AS "settings['X']""#),
            ("a.m['x'], b.m['x']", r#"a.m['x'] AS "a.m['x']", b.m['x'] AS "b.m['x']""#),
            ("(SELECT max(x) FROM u) + 1", r#"(SELECT max(x) AS "max(x)" FROM u) + 1 AS "(SELECT max(x) FROM u) + 1""#),
            ("a.x - b.x", r#"a.x - b.x AS "a.x - b.x""#),
            ("unnest(x), (SELECT 1), *", r#"unnest(x), (SELECT 1 AS "1"), *"#),
        ] {
            let mut statement = parse(&format!("SELECT {items} FROM t")).unwrap();
            name_columns(sql_of_mut(&mut statement).unwrap());
            assert_eq!(statement.to_string(), format!("SELECT {named} FROM t"), "{items}");
        }
    }
}
