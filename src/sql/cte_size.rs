//! Size of a query after its common table expressions (`WITH` queries) are put in the places of their names.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{ObjectName, Query, Visit, Visitor, visit_relations};

use crate::error::{Error, Result};

/// Largest number of tables. A `WITH` query that is named twice is there twice, so a few lines can be any number.
const MAX_TABLES: u64 = 2_000;

/// Refuses a statement with too many tables: planning it would take all memory.
///
/// # Errors
/// The statement has more than 2,000 tables after its `WITH` queries were put in.
pub(super) fn check_cte_size(statement: &Statement) -> Result<()> {
    let sql = match statement {
        Statement::Statement(sql) => sql,
        Statement::Explain(explained) => return check_cte_size(&explained.statement),
        _ => return Ok(()),
    };
    let mut sizes = CteSizes::default();
    let _ = sql.visit(&mut sizes);
    let total = sizes.of(&**sql);
    if total <= MAX_TABLES {
        return Ok(());
    }
    Err(Error::usage(format!("SQL: the query has more than {MAX_TABLES} tables, after its `WITH` queries were put in")))
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
        check_cte_size(&state.sql_to_statement(sql, &datafusion::config::Dialect::Generic).unwrap())
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
        let named_often = format!("WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT 1 FROM b{}", ", b".repeat(300));
        assert!(check(&named_often).is_ok());
    }
}
