//! Size of a query after its common table expressions (`WITH` queries) are put in the places of their names.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    GroupByExpr, ObjectName, Query, Select, SetExpr, TableFactor, TableWithJoins, Visit, Visitor, visit_relations,
};

use pairloom_base::error::{Error, Result};

/// Largest number of tables. A `WITH` query that is named twice is there twice, so a few lines can be any number.
const MAX_TABLES: u64 = 2_000;
/// Largest number of tables that one `SELECT` joins. The planner looks at all columns before for each one.
const MAX_JOINED: usize = 100;
/// Largest number of columns that a `SELECT` names. The time to plan a query grows with their square.
const MAX_COLUMNS: usize = 2_000;
/// Largest number of expressions of a `GROUP BY`.
const MAX_GROUPS: usize = 1_000;

/// Refuses a statement that would take the planner minutes, or all memory.
///
/// # Errors
/// The statement has more than 2,000 tables after its `WITH` queries were put in; or a `SELECT` of it joins more than 100
/// tables, names more than 2,000 columns or groups by more than 1,000 expressions.
pub(super) fn check_query_size(statement: &Statement) -> Result<()> {
    let sql = match statement {
        Statement::Statement(sql) => sql,
        Statement::Explain(explained) => return check_query_size(&explained.statement),
        _ => return Ok(()),
    };
    if let ControlFlow::Break((count, most, of)) = sql.visit(&mut RowWidths) {
        return Err(Error::usage(format!("SQL: {count} {of}, wanted at most {most}")));
    }
    let mut sizes = CteSizes::default();
    let _ = sql.visit(&mut sizes);
    let total = sizes.of(&**sql);
    if total <= MAX_TABLES {
        return Ok(());
    }
    Err(Error::usage(format!("SQL: the query has more than {MAX_TABLES} tables, after its `WITH` queries were put in")))
}

/// Visitor that ends at the first `SELECT` or `VALUES` that is too wide, with the number, the limit and its name.
struct RowWidths;

impl Visitor for RowWidths {
    type Break = (usize, usize, &'static str);

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Self::Break> {
        at_most(MAX_COLUMNS, select.projection.len(), "columns in a `SELECT`")?;
        if let GroupByExpr::Expressions(groups, _) = &select.group_by {
            at_most(MAX_GROUPS, groups.len(), "expressions in a `GROUP BY`")?;
        }
        at_most(MAX_JOINED, select.from.iter().map(joined_tables).sum(), "tables in a `SELECT`")
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Self::Break> {
        match &*query.body {
            SetExpr::Values(values) => {
                let widest = values.rows.iter().map(|row| row.len()).max();
                at_most(MAX_COLUMNS, widest.unwrap_or_default(), "columns in `VALUES`")
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn at_most(most: usize, count: usize, of: &'static str) -> ControlFlow<(usize, usize, &'static str)> {
    if count > most { ControlFlow::Break((count, most, of)) } else { ControlFlow::Continue(()) }
}

/// Number of tables that are joined here, also those in brackets.
fn joined_tables(tables: &TableWithJoins) -> usize {
    fn one(table: &TableFactor) -> usize {
        match table {
            TableFactor::NestedJoin { table_with_joins, .. } => joined_tables(table_with_joins),
            TableFactor::Pivot { table, .. } | TableFactor::Unpivot { table, .. } => one(table),
            _ => 1,
        }
    }
    one(&tables.relation) + tables.joins.iter().map(|join| one(&join.relation)).sum::<usize>()
}

/// Number of tables of each `WITH` query, by its name in lower case.
#[derive(Default)]
struct CteSizes(HashMap<String, u64>);

impl CteSizes {
    /// Number of tables of a query or statement.
    fn of(&self, part: &impl Visit) -> u64 {
        let mut total = 0_u64;
        let _ = visit_relations(part, |name: &ObjectName| {
            let known = self.0.get(&name.to_string().to_lowercase());
            total = total.saturating_add(known.copied().unwrap_or(1));
            ControlFlow::<()>::Continue(())
        });
        total
    }
}

impl Visitor for CteSizes {
    type Break = ();

    // After the queries within it, whose names its own may use.
    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for named in query.with.iter().flat_map(|with| &with.cte_tables) {
            let size = self.of(&*named.query).max(1);
            let entry = self.0.entry(named.alias.name.value.to_lowercase()).or_default();
            *entry = size.max(*entry);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    fn check(sql: &str) -> Result<()> {
        let state = SessionContext::new().state();
        check_query_size(&state.sql_to_statement(sql, &datafusion::config::Dialect::Generic).unwrap())
    }

    #[test]
    fn with_queries_count_as_often_as_they_are_named() {
        let doubled = |count: usize| {
            let more = (1..count).map(|i| format!(", c{i} AS (SELECT a.x FROM c{0} a, C{0} b)", i - 1));
            format!("WITH c0 AS (SELECT 1 x){} SELECT count(*) FROM c{}", more.collect::<String>(), count - 1)
        };
        assert!(check(&doubled(8)).is_ok());
        let error = check(&doubled(30)).unwrap_err().to_string();
        assert_eq!(error, "SQL: the query has more than 2000 tables, after its `WITH` queries were put in");
        // Within another query, and in EXPLAIN.
        assert!(check(&format!("EXPLAIN SELECT * FROM ({}) t", doubled(30))).is_err());
        let within = format!("WITH d AS ({}) SELECT * FROM d a, d b", doubled(6));
        assert!(check(&within).is_ok());
        let named_often = format!("WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT 1 FROM b{}", ", b".repeat(90));
        assert!(check(&named_often).is_ok());
    }

    #[test]
    fn a_query_has_a_hundred_tables_and_two_thousand_columns_at_most() {
        let columns = |count: usize| (0..count).map(|i| i.to_string()).collect::<Vec<_>>().join(", ");
        let tables = |count: usize, sign: &str| (0..count).map(|i| format!("t t{i}")).collect::<Vec<_>>().join(sign);
        for (sql, wanted) in [
            (format!("SELECT {}", columns(2_000)), None),
            (format!("SELECT {}", columns(2_001)), Some("2001 columns in a `SELECT`, wanted at most 2000")),
            (format!("SELECT * FROM (SELECT {}) a", columns(2_001)), Some("2001 columns in a `SELECT`")),
            (format!("WITH a AS (SELECT {}) SELECT 1", columns(2_001)), Some("2001 columns in a `SELECT`")),
            (format!("SELECT 1 UNION ALL SELECT {}", columns(2_001)), Some("2001 columns in a `SELECT`")),
            (format!("VALUES ({})", columns(2_001)), Some("2001 columns in `VALUES`, wanted at most 2000")),
            (format!("SELECT * FROM (VALUES (1), ({})) v", columns(2_001)), Some("2001 columns in `VALUES`")),
            (format!("SELECT 1 GROUP BY {}", columns(1_000)), None),
            (format!("SELECT 1 GROUP BY {}", columns(1_001)), Some("1001 expressions in a `GROUP BY`")),
            (format!("VALUES {}", "(1), ".repeat(9_000) + "(2)"), None),
            (format!("SELECT 1 FROM {}", tables(100, ", ")), None),
            (format!("SELECT 1 FROM {}", tables(101, ", ")), Some("101 tables in a `SELECT`, wanted at most 100")),
            (format!("SELECT 1 FROM {}", tables(101, " CROSS JOIN ")), Some("101 tables in a `SELECT`")),
            (format!("SELECT 1 FROM a, ({})", tables(100, " CROSS JOIN ")), Some("101 tables in a `SELECT`")),
            (format!("EXPLAIN SELECT 1 WHERE 1 IN (SELECT 1 FROM {})", tables(101, ", ")), Some("101 tables")),
        ] {
            let found = check(&sql).err().map(|error| error.to_string());
            let is_right = match (&found, wanted) {
                (Some(found), Some(wanted)) => found.contains(wanted),
                (found, wanted) => found.is_none() && wanted.is_none(),
            };
            assert!(is_right, "{}: {found:?}", &sql[..sql.len().min(60)]);
        }
    }
}
