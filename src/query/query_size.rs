//! Limits of the size of a query: after its common table expressions (`WITH` queries) are put in the places of their names, as
//! a plan, and of the types to which it casts.

use std::collections::HashMap;
use std::ops::ControlFlow;

use arrow::array::timezone::Tz;
use arrow::datatypes::DataType;
use datafusion::common::plan_err;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result as SqlResult;
use datafusion::logical_expr::{Expr, LogicalPlan};
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

/// Largest number of nodes of a plan. A `WITH` query that is named twice is there twice, so few lines can be a large plan.
const MAX_NODES: usize = 10_000;
/// Largest depth of a plan.
const MAX_DEPTH: usize = 500;
/// Largest sum of the squares of the numbers of columns of the nodes: optimising a plan takes seconds for as much.
const MAX_SQUARES: usize = 100_000_000;

/// Refuses a plan that would take too long to optimise, or too much memory in a cast.
///
/// # Errors
/// The plan has more than 10,000 nodes, or more than 500 below each other; or the squares of the numbers of their columns,
/// without those of tables, come to more than 10⁸. Or a cast makes values of a fixed size of more than 128 KiB.
pub(super) fn check_plan_size(plan: &LogicalPlan) -> SqlResult<()> {
    let mut waiting = vec![(plan, 1)];
    let (mut nodes, mut squares) = (0, 0);
    while let Some((node, depth)) = waiting.pop() {
        nodes += 1;
        let width = node.schema().fields().len();
        // A query may name few columns of a table of many.
        squares += if is_table(node) { 0 } else { width * width };
        if squares > MAX_SQUARES {
            return plan_err!(
                "the query has too many steps of {width} columns: the squares of the numbers of columns add up to more than {MAX_SQUARES}"
            );
        }
        if depth > MAX_DEPTH {
            return plan_err!("the query has more than {MAX_DEPTH} joins or steps below each other");
        }
        if nodes > MAX_NODES {
            return too_many();
        }
        waiting.extend(node.inputs().into_iter().map(|input| (input, depth + 1)));
    }
    // Subqueries within expressions as well.
    let mut nodes = 0;
    plan.apply_with_subqueries(|node| {
        nodes += 1;
        node.apply_expressions(|expression| {
            expression.apply(|part| check_cast(part).map(|()| TreeNodeRecursion::Continue))
        })?;
        Ok(if nodes > MAX_NODES { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if nodes > MAX_NODES { too_many() } else { Ok(()) }
}

/// True for a table, possibly under another name.
fn is_table(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_table(&alias.input),
        _ => false,
    }
}

fn too_many() -> SqlResult<()> {
    plan_err!("the query has more than {MAX_NODES} steps, after its `WITH` queries were put in")
}

/// Largest size of a value of a type of fixed size to which a query casts: a gibibyte for a batch of 8,192 rows.
const MAX_FIXED_BYTES: u64 = 128 << 10;

/// Number of values of a list that are counted for a value of fixed size in it, as no type says how many there are.
const LISTED: u64 = 1_024;

/// Refuses an expression that is a cast to a type of fixed size whose batch of values would fill the memory, or to an unknown
/// time zone, at which the library panics.
///
/// # Errors
/// A value has more than 128 KiB, or the time zone is unknown.
pub(super) fn check_cast(expression: &Expr) -> SqlResult<()> {
    let kind = match expression {
        Expr::Cast(cast) => cast.field.data_type().clone(),
        Expr::TryCast(cast) => cast.field.data_type().clone(),
        Expr::ScalarFunction(call) if matches!(call.name(), "arrow_cast" | "arrow_try_cast") => {
            let kind = call.args.get(1).and_then(Expr::as_literal).and_then(|literal| literal.try_as_str().flatten());
            let Some(kind) = kind.and_then(|kind| kind.parse().ok()) else { return Ok(()) };
            kind
        }
        _ => return Ok(()),
    };
    if let DataType::Timestamp(_, Some(zone)) = &kind
        && zone.parse::<Tz>().is_err()
    {
        return plan_err!("unknown time zone `{zone}` in a cast");
    }
    let size = fixed_size(&kind);
    if size <= MAX_FIXED_BYTES {
        return Ok(());
    }
    plan_err!("a value of the type of a cast has {size} bytes, wanted at most {MAX_FIXED_BYTES}")
}

/// Bytes of a value of a type that has the same number of values or bytes in each row.
fn fixed_size(kind: &DataType) -> u64 {
    match kind {
        DataType::FixedSizeList(field, length) => {
            u64::try_from(*length).unwrap_or(0).saturating_mul(fixed_size(field.data_type()))
        }
        DataType::FixedSizeBinary(bytes) => u64::try_from(*bytes).unwrap_or(0),
        DataType::Struct(fields) => {
            fields.iter().map(|field| fixed_size(field.data_type())).fold(0, u64::saturating_add)
        }
        DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => match field.data_type() {
            kind if has_fixed(kind) => fixed_size(kind).saturating_mul(LISTED),
            _ => size_of::<u128>() as u64,
        },
        kind => kind.primitive_width().unwrap_or(size_of::<u128>()) as u64,
    }
}

/// True for a type with a part of fixed size that its file or query chooses.
fn has_fixed(kind: &DataType) -> bool {
    match kind {
        DataType::FixedSizeList(..) | DataType::FixedSizeBinary(_) => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_fixed(field.data_type())),
        DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => has_fixed(field.data_type()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::testing::text;
    use crate::{OutputFormat, Session};
    use pairloom_base::error::ErrorCategory;

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

    #[test]
    fn casts_to_large_values_of_fixed_size_are_refused() {
        let session = Session::of_empty_tables([]).unwrap();
        let run = |sql: &str| text(&session, sql, OutputFormat::Csv);
        for sql in [
            "SELECT arrow_cast([1, 2], 'FixedSizeList(2147483647, Int64)')",
            "SELECT count(arrow_cast([value], 'FixedSizeList(1000000, Int64)')) FROM range(0, 9)",
            "SELECT [1, 2]::BIGINT[2147483647]",
            "SELECT TRY_CAST([1, 2] AS BIGINT[2147483647])",
            "SELECT arrow_cast('a', 'FixedSizeBinary(2147483647)')",
            "SELECT (SELECT arrow_cast([[1]], 'List(FixedSizeList(100000, Int64))'))",
            "SELECT 1 FROM range(0, 9) ORDER BY [value]::BIGINT[100000]",
            "SELECT arrow_cast([[1], [2]], 'List(FixedSizeList(16000, Int64))')",
            "SELECT arrow_try_cast([['a']], 'List(LargeList(FixedSizeBinary(5)))')",
        ] {
            let error = run(sql).unwrap_err();
            assert_eq!(error.category(), ErrorCategory::Usage, "{sql}: {error}");
            assert!(error.to_string().contains("bytes, wanted at most 131072"), "{sql}: {error}");
        }
        assert_eq!(run("SELECT arrow_cast([1, 2], 'FixedSizeList(2, Float32)') AS v").unwrap(), "v\n\"[1.0, 2.0]\"\n");
        run("SELECT array_length([1, 2]::BIGINT[2]), [['a']]::TEXT[][], arrow_cast([[1, 2]], 'List(FixedSizeList(2, Int8))')")
            .unwrap();
        let error = run("SELECT [arrow_cast(0, 'Timestamp(Millisecond, Some(\"Nix/Da\"))')]").unwrap_err();
        assert!(error.to_string().contains("unknown time zone `Nix/Da` in a cast"), "{error}");
    }
}
