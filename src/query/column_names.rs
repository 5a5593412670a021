//! Names of columns and of subqueries in `FROM`.
//!
//! An expression without `AS` is named as the query writes it: DataFusion names `avg(rsum)` by the full names of its columns,
//! `avg(all_runs.summary.rsum)`. Subqueries without a name get one.
//!
//! Between projections no column has the name of a column further out. DataFusion 55 drops a projection that is equal to its
//! input, although `SELECT x + 1 x FROM (SELECT x + 1 x FROM t)` adds two. Projections whose names differ are not equal. The
//! rule can go with a version in which <https://github.com/apache/datafusion/pull/24686> is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan, Projection};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Ident, ObjectNamePart, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor,
    TableWithJoins, VisitMut, VisitorMut,
};

/// Functions whose result can be several columns, which get their own names.
const EXPANDED: [&str; 1] = ["unnest"];

/// Names all expressions without a name in the lists of all `SELECT`s of a statement.
pub(super) fn name_columns(statement: &mut Statement) {
    match statement {
        Statement::Statement(sql) => {
            let _ = sql.visit(&mut ColumnNamer);
        }
        Statement::Explain(explained) => name_columns(&mut explained.statement),
        _ => {}
    }
}

/// Visitor that names the columns of queries and subqueries.
struct ColumnNamer;

impl VisitorMut for ColumnNamer {
    type Break = ();

    // Before the subqueries, whose new names are no part of the query as it is written.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        name_body(&mut query.body);
        ControlFlow::Continue(())
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

/// Plans a statement in which each subquery in `FROM` beside an `ORDER BY` has a name.
///
/// Without a name, DataFusion 55 takes `x` in `SELECT -x x, x y FROM (SELECT 1 x) ORDER BY x` for the column of the subquery,
/// and then for the result's column `y`, which is computed in the same way.
///
/// # Errors
/// The statement cannot be planned.
pub(super) async fn plan_with_named_subqueries(state: &SessionState, statement: Statement) -> Result<LogicalPlan> {
    let mut named = statement.clone();
    if name_subqueries(&mut named)
        && let Ok(plan) = state.statement_to_plan(named).await
    {
        return Ok(plan);
    }
    // `SELECT t.x FROM (SELECT t.x FROM t)` is understood only as long as the subquery has no name.
    state.statement_to_plan(statement).await
}

fn name_subqueries(statement: &mut Statement) -> bool {
    match statement {
        Statement::Statement(sql) => {
            let mut namer = SubqueryNamer { count: 0 };
            let _ = sql.visit(&mut namer);
            namer.count > 0
        }
        Statement::Explain(explained) => name_subqueries(&mut explained.statement),
        _ => false,
    }
}

/// Visitor that names the subqueries of queries with `ORDER BY`. In others names do no good, and DataFusion 55 does not compute
/// some correlated subqueries over a named one.
struct SubqueryNamer {
    count: usize,
}

impl VisitorMut for SubqueryNamer {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if query.order_by.is_some()
            && let SetExpr::Select(select) = query.body.as_mut()
        {
            select.from.iter_mut().for_each(|tables| self.name_tables(tables));
        }
        ControlFlow::Continue(())
    }
}

impl SubqueryNamer {
    fn name_tables(&mut self, tables: &mut TableWithJoins) {
        self.name_table(&mut tables.relation);
        tables.joins.iter_mut().for_each(|join| self.name_table(&mut join.relation));
    }

    fn name_table(&mut self, table: &mut TableFactor) {
        match table {
            TableFactor::Derived { lateral: false, alias: alias @ None, .. } => {
                self.count += 1;
                let name = Ident::with_quote('"', format!("subquery#{}", self.count));
                *alias = Some(TableAlias { explicit: true, name, columns: vec![], at: None });
            }
            TableFactor::NestedJoin { table_with_joins, alias: None, .. } => self.name_tables(table_with_joins),
            _ => {}
        }
    }
}

/// Name of DataFusion's rule before which this one has to run: it merges projections, and drops equal ones.
const MERGE: &str = "optimize_projections";

/// Optimizer rule that renames columns between two projections.
#[derive(Debug)]
struct ProjectionNames;

/// Rules with distinct names of columns between projections.
pub(super) fn with_projection_names(
    mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    // Other rules may bring projections together, so the names have to be distinct at each time that some are merged.
    let merges = rules.iter().position(|rule| rule.name() == MERGE).unwrap_or(rules.len());
    rules.insert(merges, Arc::new(ProjectionNames));
    rules
}

impl OptimizerRule for ProjectionNames {
    fn name(&self) -> &'static str {
        "projection_names"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut used = BTreeSet::new();
        plan.transform_down_with_subqueries(|plan| {
            let LogicalPlan::Projection(outer) = plan else { return Ok(Transformed::no(plan)) };
            used.extend(outer.expr.iter().filter_map(alias_name).map(str::to_owned));
            Ok(with_other_names(outer, &mut used)?.update_data(LogicalPlan::Projection))
        })
    }
}

fn alias_name(expr: &PlanExpr) -> Option<&str> {
    match expr {
        PlanExpr::Alias(alias) => Some(&alias.name),
        _ => None,
    }
}

/// Projection over a projection whose aliases are not among the used names; they are added to these.
fn with_other_names(outer: Projection, used: &mut BTreeSet<String>) -> Result<Transformed<Projection>> {
    let LogicalPlan::Projection(inner) = outer.input.as_ref() else { return Ok(Transformed::no(outer)) };
    // Places of the renamed columns.
    let mut names: BTreeMap<usize, String> = BTreeMap::new();
    let mut exprs = inner.expr.clone();
    for (place, expr) in exprs.iter_mut().enumerate() {
        let PlanExpr::Alias(alias) = expr else { continue };
        if !used.contains(&alias.name) {
            continue;
        }
        let is_taken =
            |name: &String| used.contains(name) || inner.schema.fields().iter().any(|field| field.name() == name);
        let mut number = 1;
        let mut name = format!("{}#{number}", alias.name);
        while is_taken(&name) {
            number += 1;
            name = format!("{}#{number}", alias.name);
        }
        alias.name = name;
        used.insert(alias.name.clone());
        names.insert(place, alias.name.clone());
    }
    if names.is_empty() {
        return Ok(Transformed::no(outer));
    }
    let preserver = NamePreserver::new_for_projection();
    let renamed = outer.expr.iter().map(|expr| {
        let name = preserver.save(expr);
        let renamed = expr.clone().transform(|part| {
            let PlanExpr::Column(column) = &part else { return Ok(Transformed::no(part)) };
            match names.get(&inner.schema.index_of_column(column)?) {
                Some(name) => {
                    Ok(Transformed::yes(PlanExpr::Column(Column::new(column.relation.clone(), name.clone()))))
                }
                None => Ok(Transformed::no(part)),
            }
        });
        Ok(name.restore(renamed?.data))
    });
    let renamed = renamed.collect::<Result<Vec<PlanExpr>>>()?;
    let inner = Projection::try_new(exprs, Arc::clone(&inner.input))?;
    let inner = Arc::new(LogicalPlan::Projection(inner));
    Ok(Transformed::yes(Projection::try_new_with_schema(renamed, inner, outer.schema)?))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;
    use crate::testing::text;
    use crate::{OutputFormat, Session};

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
            let mut statement = DFParser::parse_sql(&format!("SELECT {items} FROM t")).unwrap().remove(0).unwrap();
            name_columns(&mut statement);
            assert_eq!(statement.to_string(), format!("SELECT {named} FROM t"), "{items}");
        }
    }

    /// Rows by hand.
    #[test]
    fn results_of_unnamed_subqueries_are_sorted_by_their_own_columns() {
        let session = Session::of_empty_tables([]).unwrap();
        let pairs = "(VALUES (1, 5), (2, 4)) t(a, y)";
        for (sql, wanted) in [
            ("SELECT -x x, x y FROM (SELECT 1 x UNION ALL SELECT 2) ORDER BY 1".to_owned(), "-2,2 -1,1"),
            ("SELECT -x x, x y FROM (SELECT 1 x UNION ALL SELECT 2) ORDER BY x".to_owned(), "-2,2 -1,1"),
            (format!("SELECT y a, a y FROM (SELECT a + 0 a, y + 0 y FROM {pairs}) ORDER BY a"), "4,2 5,1"),
            (format!("SELECT y a, a y FROM (SELECT a + 0 a, y + 0 y FROM {pairs}) ORDER BY a LIMIT 1"), "4,2"),
            // The name of a table within a subquery without a name.
            (format!("SELECT t.y FROM (SELECT t.y FROM {pairs}) ORDER BY t.y"), "4 5"),
            (
                format!("SELECT * FROM (SELECT a FROM {pairs}), (SELECT y FROM {pairs}) ORDER BY a, y"),
                "1,4 1,5 2,4 2,5",
            ),
        ] {
            let csv = text(&session, &sql, OutputFormat::Csv).unwrap();
            assert_eq!(csv.lines().skip(1).collect::<Vec<_>>().join(" "), wanted, "{sql}");
        }
        let error = text(&session, "SELECT z FROM (SELECT 1 x)", OutputFormat::Csv).unwrap_err();
        assert!(!error.to_string().contains('#'), "{error}");
    }

    /// Results by hand.
    #[test]
    fn equal_projections_are_all_computed() {
        let session = Session::of_empty_tables([]).unwrap();
        let nested = |seed: &str, item: &str, depth: usize| {
            (0..depth).fold(seed.to_owned(), |inner, _| format!("SELECT {item} FROM ({inner})"))
        };
        for (sql, wanted) in [
            (nested("SELECT 1 x", "x + 1 x", 2), "3"),
            (nested("SELECT 1 x", "x + 1 x", 6), "7"),
            // The same after it is simplified.
            ("SELECT x + 1 x FROM (SELECT 1 + x x FROM (SELECT 1 x))".to_owned(), "3"),
            // Each level uses the one below twice.
            (nested("SELECT 'a' x", "x || x x", 3), "aaaaaaaa"),
            (nested("SELECT value x FROM range(3, 4)", "x * x x", 3), "6561"),
            (nested("SELECT 1 x, 2 y", "y x, x y", 2), "1,2"),
            (nested("SELECT 1 x, 2 y", "y x, x y", 3), "2,1"),
            (nested("SELECT 1 x, 2 y", "x + y x, x y", 4), "11,7"),
            // Equal but for one between them.
            ("SELECT x + 1 x FROM (SELECT x FROM (SELECT x + 1 x FROM (SELECT 1 x)))".to_owned(), "3"),
            ("SELECT x + 1 z FROM (SELECT z x FROM (SELECT z + 1 z FROM (SELECT 1 z)))".to_owned(), "3"),
            // Names that the rule could give.
            ("SELECT x + 1 x, \"x#1\" FROM (SELECT x + 1 x, 5 \"x#1\" FROM (SELECT 1 x))".to_owned(), "3,5"),
            // Columns of tables, and subqueries.
            ("SELECT a.x + 1 x FROM (SELECT a.x + 1 x, a.x y FROM (SELECT 1 x) a) a".to_owned(), "3"),
            ("SELECT x + 1 x FROM (SELECT x + 1 x FROM (SELECT (SELECT x + 1 x FROM (SELECT 5 x)) x))".to_owned(), "8"),
            // A subquery becomes a join. One that nobody reads is removed, and projections meet.
            (nested("SELECT 3 x", "(SELECT max(r.value) + 1 FROM range(9) r WHERE r.value = x) x", 3), "6"),
            (nested("SELECT 3 x", "x + 1 x, (SELECT max(r.value) FROM range(9) r WHERE r.value = x) y", 3), "6,5"),
            (nested("SELECT 3 x", "x + (SELECT max(value) FROM range(3)) x", 3), "9"),
            (nested("SELECT 3 x", "x + 1 x, row_number() OVER () y", 3), "6,1"),
            (
                "SELECT sum(x) x FROM (SELECT x + 1 x FROM (SELECT x + 1 x FROM (SELECT value x FROM range(3))))"
                    .to_owned(),
                "9",
            ),
            ("SELECT x FROM (SELECT x + 1 x FROM (SELECT x + 1 x FROM (SELECT 1 x))) ORDER BY x".to_owned(), "3"),
            ("SELECT 1 x WHERE 3 IN (SELECT x + 1 x FROM (SELECT x + 1 x FROM (SELECT 1 x)))".to_owned(), "1"),
        ] {
            let csv = text(&session, &sql, OutputFormat::Csv).unwrap();
            let (names, values) = csv.split_once('\n').unwrap();
            assert_eq!(values.trim_end(), wanted, "{sql}");
            assert!(names.starts_with('x') || names.starts_with('z'), "{sql}: {names}");
        }
    }
}
