//! Queries that the parser or the planner would read as other ones, and that are refused for it.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Join, JoinConstraint, JoinOperator, LimitClause, Query, Select, SetExpr, SetOperator,
    SetQuantifier, TableFactor, Visit, Visitor,
};

use pairloom_base::error::{Error, Result};

/// Refuses a statement whose rows would be wrong, with DataFusion 55 and sqlparser 0.62.
///
/// # Errors
/// The statement has one of these, and the hint says how to write it:
/// - `TABLESAMPLE`, which is left out.
/// - `RIGHT` or `FULL JOIN` with `USING`, or `NATURAL`: the common column has the values of the left table only.
/// - `INTERSECT ALL` and `EXCEPT ALL`: repeated rows are not counted.
/// - `a IS DISTINCT FROM b AND c` without brackets: it is read as `a IS DISTINCT FROM (b AND c)`.
/// - `ORDER BY` and `OFFSET` without `LIMIT` in a subquery: the order is lost before rows are skipped.
pub(super) fn check_reading(statement: &Statement) -> Result<()> {
    let sql = match statement {
        Statement::Statement(sql) => sql,
        Statement::Explain(explained) => return check_reading(&explained.statement),
        _ => return Ok(()),
    };
    match sql.visit(&mut Misread { depth: 0, is_lateral: false }) {
        ControlFlow::Break((what, hint)) => Err(Error::usage(format!("SQL: {what} is not supported")).hint(hint)),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Visitor that ends at the first part of a query that would be misread, with its name and a hint.
struct Misread {
    /// Number of queries around.
    depth: usize,
    /// True if the next query is a lateral one, whose planner refuses it with its own reason.
    is_lateral: bool,
}

impl Visitor for Misread {
    type Break = (&'static str, &'static str);

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        let is_lateral = std::mem::take(&mut self.is_lateral);
        check_body(&query.body)?;
        let is_offset_alone =
            matches!(&query.limit_clause, Some(LimitClause::LimitOffset { limit: None, offset: Some(_), .. }));
        if self.depth > 1 && !is_lateral && query.order_by.is_some() && is_offset_alone {
            return ControlFlow::Break(("`OFFSET` without `LIMIT` in a subquery", "add a `LIMIT`"));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Self::Break> {
        select.from.iter().flat_map(|tables| &tables.joins).try_for_each(check_join)
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<Self::Break> {
        match table {
            TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
                ControlFlow::Break(("`TABLESAMPLE`", "`WHERE random() < 0.1` keeps a tenth"))
            }
            TableFactor::Derived { lateral, .. } => {
                self.is_lateral = *lateral;
                ControlFlow::Continue(())
            }
            TableFactor::NestedJoin { table_with_joins, .. } => table_with_joins.joins.iter().try_for_each(check_join),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        match expr {
            Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) if is_condition(right) => {
                ControlFlow::Break((
                    "`IS DISTINCT FROM` before `AND` or `OR`",
                    "put it in brackets: `(a IS DISTINCT FROM b) AND c`",
                ))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Returns true for conditions that are joined without brackets.
fn is_condition(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Xor, .. })
}

/// Refuses set operations that do not count rows.
fn check_body(body: &SetExpr) -> ControlFlow<(&'static str, &'static str)> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return ControlFlow::Continue(()) };
    let counts = matches!(set_quantifier, SetQuantifier::All | SetQuantifier::AllByName);
    if counts && *op != SetOperator::Union {
        let hint = "leave out `ALL`, or count the rows of each side with `GROUP BY`";
        return ControlFlow::Break(("`INTERSECT ALL` or `EXCEPT ALL`", hint));
    }
    check_body(left)?;
    check_body(right)
}

/// Refuses joins whose common column is taken from the left table, which may lack the row.
fn check_join(join: &Join) -> ControlFlow<(&'static str, &'static str)> {
    let (JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) | JoinOperator::FullOuter(constraint)) =
        &join.join_operator
    else {
        return ControlFlow::Continue(());
    };
    match constraint {
        JoinConstraint::Using(_) | JoinConstraint::Natural => ControlFlow::Break((
            "`RIGHT JOIN` or `FULL JOIN` with `USING` or `NATURAL`",
            "`a FULL JOIN b ON a.x = b.x`, and `coalesce(a.x, b.x)` for the common column",
        )),
        _ => ControlFlow::Continue(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::text;
    use crate::{OutputFormat, Session};
    use pairloom_base::error::ErrorCategory;

    #[test]
    fn queries_that_would_be_misread_are_refused() {
        let session = Session::of_empty_tables([]).unwrap();
        let run = |sql: &str| text(&session, sql, OutputFormat::Csv);
        let (a, b) = ("(VALUES (1), (2)) a(x)", "(VALUES (2), (3)) b(x)");
        let both = "(VALUES (true, false), (false, true)) t(f, g)";
        for (sql, wanted) in [
            (format!("SELECT x FROM {a} TABLESAMPLE (1 ROWS)"), "`TABLESAMPLE` is not"),
            (format!("SELECT x FROM (SELECT x FROM {a}) s TABLESAMPLE BERNOULLI (10)"), "`TABLESAMPLE` is not"),
            (format!("SELECT x FROM {a} RIGHT JOIN {b} USING (x)"), "`USING`"),
            (format!("SELECT x FROM {a} FULL JOIN {b} USING (x)"), "`USING`"),
            (format!("SELECT 1 WHERE EXISTS (SELECT x FROM ({a} NATURAL FULL JOIN {b}))"), "`NATURAL`"),
            (format!("EXPLAIN SELECT x FROM {a} NATURAL RIGHT JOIN {b}"), "`NATURAL`"),
            (format!("SELECT x FROM {a} INTERSECT ALL SELECT x FROM {b}"), "`INTERSECT ALL`"),
            (format!("(SELECT x FROM {a} EXCEPT ALL SELECT x FROM {b}) UNION SELECT 1"), "`EXCEPT ALL`"),
            (format!("SELECT f FROM {both} WHERE f IS DISTINCT FROM true AND g"), "`IS DISTINCT FROM` before"),
            (format!("SELECT f IS NOT DISTINCT FROM g OR true FROM {both}"), "`IS DISTINCT FROM` before"),
            (format!("SELECT sum(x) FROM (SELECT x FROM {a} ORDER BY x OFFSET 1)"), "`OFFSET` without"),
        ] {
            let error = run(&sql).unwrap_err();
            assert_eq!(error.category(), ErrorCategory::Usage, "{sql}: {error}");
            assert!(error.to_string().contains(wanted) && error.hint_text().is_some(), "{sql}: {error}");
        }
        // The same as the hints say, and what is read as it is written. Rows by hand.
        for (sql, wanted) in [
            (format!("SELECT coalesce(a.x, b.x) x FROM {a} FULL JOIN {b} ON a.x = b.x ORDER BY x"), "1 2 3"),
            (format!("SELECT x FROM {a} JOIN {b} USING (x)"), "2"),
            (format!("SELECT x FROM {a} LEFT JOIN {b} USING (x) ORDER BY x"), "1 2"),
            (format!("SELECT x FROM {a} INTERSECT SELECT x FROM {b}"), "2"),
            (format!("SELECT x FROM {a} UNION ALL SELECT x FROM {b} ORDER BY x"), "1 2 2 3"),
            (format!("SELECT f FROM {both} WHERE (f IS DISTINCT FROM true) AND g"), "false"),
            (format!("SELECT f FROM {both} WHERE g AND f IS DISTINCT FROM true"), "false"),
            (format!("SELECT x FROM {a} WHERE x IS DISTINCT FROM 1 + 1"), "1"),
            (format!("SELECT sum(x) FROM (SELECT x FROM {a} ORDER BY x LIMIT 9 OFFSET 1)"), "2"),
            (format!("SELECT x FROM {a} ORDER BY x OFFSET 1"), "2"),
        ] {
            let csv = run(&sql).unwrap();
            assert_eq!(csv.lines().skip(1).collect::<Vec<_>>().join(" "), wanted, "{sql}");
        }
    }
}
