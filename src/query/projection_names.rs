//! Names of the columns between projections: none is the name of a column further out.
//!
//! DataFusion 55 drops a projection that is equal to its input, although `SELECT x + 1 x FROM (SELECT x + 1 x FROM t)` adds
//! two. Projections whose names differ are not equal. The rule can go with a version in which
//! <https://github.com/apache/datafusion/pull/24686> is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

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

fn alias_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Alias(alias) => Some(&alias.name),
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
        let Expr::Alias(alias) = expr else { continue };
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
            let Expr::Column(column) = &part else { return Ok(Transformed::no(part)) };
            match names.get(&inner.schema.index_of_column(column)?) {
                Some(name) => Ok(Transformed::yes(Expr::Column(Column::new(column.relation.clone(), name.clone())))),
                None => Ok(Transformed::no(part)),
            }
        });
        Ok(name.restore(renamed?.data))
    });
    let renamed = renamed.collect::<Result<Vec<Expr>>>()?;
    let inner = Projection::try_new(exprs, Arc::clone(&inner.input))?;
    let inner = Arc::new(LogicalPlan::Projection(inner));
    Ok(Transformed::yes(Projection::try_new_with_schema(renamed, inner, outer.schema)?))
}

#[cfg(test)]
mod tests {
    use crate::testing::text;
    use crate::{OutputFormat, Session};

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
