//! Size of a query with its `WITH` queries in all places that name them.
//!
//! DataFusion plans a `WITH` query anew at each of these places, and plans and runs each level of a plan within the one above. A
//! chain of thousands of them used up the stack of a thread, and thirty of which each names the one before twice are 10⁹ parts.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Ident, ObjectNamePart, Query, Statement, TableFactor, Visit, Visitor};

use pairloom_base::error::{Error, Result};

/// Largest number of parts. Twice as many levels fit on the stacks of the threads in a build that is not optimised.
const MAX_PARTS: u64 = 250;

/// Refuses a statement of too many parts: tables in `FROM`, subqueries, and `WITH` queries at each place that names them.
///
/// # Errors
/// There are more than [`MAX_PARTS`].
pub(super) fn check_size(statement: &Statement) -> Result<()> {
    match statement.visit(&mut Sizes::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(TooLarge) => Err(Error::usage(format!("SQL: the query has more than {MAX_PARTS} parts"))
            .hint(
                "a part is a table in `FROM`, a subquery, or a `WITH` query at each place that names it; write fewer",
            )),
    }
}

struct TooLarge;

/// Visitor that counts parts.
#[derive(Default)]
struct Sizes {
    /// Queries around the place, the innermost last.
    queries: Vec<QuerySize>,
}

/// Query whose parts are counted.
#[derive(Default)]
struct QuerySize {
    parts: u64,
    /// Names of its `WITH` queries by their addresses.
    names: HashMap<*const Query, String>,
    /// Sizes of those that are counted.
    sizes: HashMap<String, u64>,
}

impl Sizes {
    fn add(&mut self, parts: u64) -> ControlFlow<TooLarge> {
        let Some(query) = self.queries.last_mut() else { return ControlFlow::Continue(()) };
        query.parts += parts;
        if query.parts > MAX_PARTS { ControlFlow::Break(TooLarge) } else { ControlFlow::Continue(()) }
    }
}

impl Visitor for Sizes {
    type Break = TooLarge;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<TooLarge> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        let names = tables.map(|table| (std::ptr::from_ref(&*table.query), folded(&table.alias.name)));
        self.queries.push(QuerySize { names: names.collect(), ..QuerySize::default() });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<TooLarge> {
        let parts = self.queries.pop().map_or(0, |query| query.parts) + 1;
        if let Some(around) = self.queries.last_mut()
            && let Some(name) = around.names.remove(&std::ptr::from_ref(query))
        {
            around.sizes.insert(name, parts);
            return ControlFlow::Continue(());
        }
        self.add(parts)
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<TooLarge> {
        let TableFactor::Table { name, .. } = table else { return ControlFlow::Continue(()) };
        let size = match name.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => {
                let name = folded(name);
                self.queries.iter().rev().find_map(|query| query.sizes.get(&name)).copied()
            }
            _ => None,
        };
        self.add(size.unwrap_or(1))
    }
}

/// Name that SQL reads: lower case without quotes.
fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

#[cfg(test)]
mod tests {
    use crate::testing::text;
    use crate::{OutputFormat, Session};

    /// Chain of `n` `WITH` queries, of which each reads the one before.
    fn chain(n: usize, from: impl Fn(usize) -> String) -> String {
        let tables: Vec<String> =
            (1..n).map(|at| format!(", c{at} AS (SELECT DISTINCT a.x + 1 x FROM {})", from(at - 1))).collect();
        format!("WITH c0 AS (SELECT 1 x){} SELECT x FROM c{}", tables.concat(), n - 1)
    }

    #[test]
    fn deep_queries_run_and_deeper_ones_are_refused() {
        let session = Session::of_empty_tables([]).unwrap();
        let rows = |sql: &str| text(&session, sql, OutputFormat::Csv);
        // c0 is 1.
        assert_eq!(rows(&chain(100, |at| format!("c{at} a"))).unwrap(), "x\n100\n");
        let join = |n: usize| {
            let joins: Vec<String> =
                (1..n).map(|at| format!(" LEFT JOIN range(1) t{at} ON t{at}.value = t0.value")).collect();
            format!("SELECT count(*) AS n FROM range(1) t0{}", joins.concat())
        };
        assert_eq!(rows(&join(100)).unwrap(), "n\n1\n");
        for large in [
            chain(3_000, |at| format!("c{at} a")),
            // 2²⁹ times c0.
            chain(30, |at| format!("c{at} a, c{at} b")),
            format!("SELECT 1 FROM {}", vec!["range(1)"; 300].join(", ")),
        ] {
            let message = rows(&large).unwrap_err().to_string();
            assert!(message.contains("the query has more than 250 parts"), "{message}");
        }
    }
}
