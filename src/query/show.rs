//! Statements that a session runs: queries, `EXPLAIN`, `SHOW` and `DESCRIBE`. All others would write and are refused.

use datafusion::common::TableReference;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    DescribeAlias, ObjectName, SelectFlavor, SetExpr, ShowStatementFilter, ShowStatementFilterPosition,
    ShowStatementOptions, Statement as Sql,
};

use crate::errors::{checked, no_copy, read_only};
use pairloom_base::error::{Error, Result};

/// Statement by the way in which it is answered.
pub(super) enum Request {
    /// DataFusion plans it.
    Query,
    /// It has the rows of another query, over the tables of `information_schema`.
    Rewritten(String),
    /// The columns of a table.
    Describe(TableReference),
}

/// Returns the way in which a statement is answered.
///
/// # Errors
/// The statement would write, or it is a `SHOW` of something else.
pub(super) fn request(statement: &Statement) -> Result<Request> {
    match statement {
        Statement::Statement(sql) => match &**sql {
            Sql::ExplainTable { describe_alias: DescribeAlias::Describe | DescribeAlias::Desc, table_name, .. } => {
                describe(table_name)
            }
            Sql::Query(query) => match &*query.body {
                SetExpr::Select(select) if select.flavor == SelectFlavor::FromFirstNoSelect => {
                    let from: Vec<String> = select.from.iter().map(ToString::to_string).collect();
                    let error = Error::usage("SQL: the query has no `SELECT`");
                    Err(error.hint(format!("write what to select: `SELECT * FROM {}`", from.join(", "))))
                }
                _ => Ok(Request::Query),
            },
            Sql::Explain { .. } => Ok(Request::Query),
            Sql::ShowTables { show_options, .. } => show_tables(show_options),
            Sql::ShowColumns { show_options, .. } => show_columns(show_options),
            Sql::ShowSchemas { show_options, .. } | Sql::ShowDatabases { show_options, .. } => {
                let filter = filter_condition("schema_name", show_options)?;
                let query = "SELECT schema_name AS \"schema\" FROM information_schema.schemata";
                Ok(Request::Rewritten(format!("{query}{}", where_clause(filter.into_iter()))))
            }
            Sql::ShowFunctions { filter } => {
                let filter = filter.as_ref().map(|filter| condition("routine_name", filter)).transpose()?;
                let query = "SELECT routine_name AS \"function\", routine_type AS \"type\", syntax, description FROM \
                             information_schema.routines";
                Ok(Request::Rewritten(format!("{query}{}", where_clause(filter.into_iter()))))
            }
            Sql::ShowVariable { .. }
            | Sql::ShowVariables { .. }
            | Sql::ShowStatus { .. }
            | Sql::ShowViews { .. }
            | Sql::ShowCatalogs { .. }
            | Sql::ShowCreate { .. }
            | Sql::ShowCollation { .. }
            | Sql::ExplainTable { .. } => Err(unknown_show()),
            Sql::Copy { .. } | Sql::Unload { .. } => Err(no_copy()),
            _ => Err(read_only()),
        },
        Statement::CopyTo(_) => Err(no_copy()),
        Statement::Explain(explained) => match request(&explained.statement)? {
            Request::Query => Ok(Request::Query),
            _ => Err(Error::usage("SQL: `EXPLAIN` of this statement, wanted a query")),
        },
        _ => Err(read_only()),
    }
}

fn unknown_show() -> Error {
    Error::usage("SQL: this `SHOW` is unknown").hint(
        "there are `SHOW SCHEMAS`, `SHOW TABLES FROM stage`, `SHOW COLUMNS FROM stage.table` and \
         `SHOW FUNCTIONS LIKE 'array%'`",
    )
}

fn describe(name: &ObjectName) -> Result<Request> {
    Ok(Request::Describe(checked(object_name_to_table_reference(name.clone(), true))?))
}

fn show_tables(options: &ShowStatementOptions) -> Result<Request> {
    let parent = options.show_in.as_ref().and_then(|parent| parent.parent_name.as_ref());
    let schema = match parent.map(|name| checked(object_name_to_table_reference(name.clone(), true))).transpose()? {
        None => None,
        Some(TableReference::Bare { table }) => Some(format!("lower(table_schema) = lower({})", literal(&table))),
        Some(other) => {
            return Err(Error::usage(format!("SQL: `SHOW TABLES FROM {other}`, wanted the name of a stage")));
        }
    };
    let filter = filter_condition("table_name", options)?;
    let query = "SELECT table_schema AS \"schema\", table_name AS \"table\", table_rows AS \"rows\", table_comment AS \
                 description FROM information_schema.tables";
    Ok(Request::Rewritten(format!("{query}{}", where_clause(schema.into_iter().chain(filter)))))
}

fn show_columns(options: &ShowStatementOptions) -> Result<Request> {
    let parent = options.show_in.as_ref().and_then(|parent| parent.parent_name.as_ref());
    match parent {
        Some(name) if options.filter_position.is_none() => describe(name),
        Some(_) => Err(Error::usage("SQL: `SHOW COLUMNS` with a condition").hint(
            "query `information_schema.columns` with a condition on `table_schema`, `table_name`, `column_name`",
        )),
        None => Err(Error::usage("SQL: `SHOW COLUMNS` without a table, wanted `SHOW COLUMNS FROM stage.table`")),
    }
}

/// Condition of `LIKE` or `ILIKE` on a column.
fn filter_condition(column: &str, options: &ShowStatementOptions) -> Result<Option<String>> {
    if options.starts_with.is_some() || options.limit.is_some() || options.limit_from.is_some() {
        return Err(unknown_show());
    }
    let filter = match &options.filter_position {
        None => return Ok(None),
        Some(ShowStatementFilterPosition::Infix(filter) | ShowStatementFilterPosition::Suffix(filter)) => filter,
    };
    condition(column, filter).map(Some)
}

fn condition(column: &str, filter: &ShowStatementFilter) -> Result<String> {
    match filter {
        ShowStatementFilter::Like(pattern) => Ok(format!("{column} LIKE {}", literal(pattern))),
        ShowStatementFilter::ILike(pattern) => Ok(format!("{column} ILIKE {}", literal(pattern))),
        _ => Err(unknown_show()),
    }
}

fn where_clause(conditions: impl Iterator<Item = String>) -> String {
    let conditions: Vec<String> = conditions.collect();
    if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
