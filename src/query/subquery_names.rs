//! Names of subqueries in `FROM` that the query does not name.

use std::ops::ControlFlow;

use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Ident, Query, SetExpr, TableAlias, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};

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

#[cfg(test)]
mod tests {
    use crate::testing::text;
    use crate::{OutputFormat, Session};

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
}
