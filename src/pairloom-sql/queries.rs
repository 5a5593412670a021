//! Queries of the `[[expect]]` tables of a pipeline.

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};

use pairloom_base::error::{Error, Result};
use pairloom_cli::sql_requests::{QueryValue, TableDeclaration};
use pairloom_cli::units::format_items;
use pairloom_query::{DeclaredTable, Session, StageArtefact, StatementInterrupt};
use pairloom_store::Store;
use pairloom_store::record::StageRecord;

/// Plans every query against tables without rows. Returns the error of each wrong query.
///
/// # Errors
/// Threads cannot be started.
pub(super) fn check_queries(tables: &[TableDeclaration], queries: &[String]) -> Result<Vec<Option<Error>>> {
    let tables = tables.iter().map(|declared| {
        let TableDeclaration { stage, coordinates, table, schema } = declared.clone();
        DeclaredTable { stage, coordinates, table, schema }
    });
    let session = Session::of_empty_tables(tables)?;
    let problem = |query: &String| match session.query(query) {
        Ok(rows) => match rows.schema().fields().len() {
            1 => None,
            columns => {
                Some(Error::usage(format!("the query gives {}, wanted one number", format_items(columns, "columns"))))
            }
        },
        // A diagnostic shows the query itself.
        Err(error) => Some(first_line(error)),
    };
    Ok(queries.iter().map(problem).collect())
}

/// Error with the first line of its message.
fn first_line(error: Error) -> Error {
    let text = error.to_string();
    let short = Error::new(error.category(), text.lines().next().unwrap_or_default());
    match error.hint_text() {
        Some(hint) => short.hint(hint),
        None => short,
    }
}

/// Evaluates queries for single numbers over the results of the stages of a run.
///
/// # Errors
/// The store cannot be read.
pub(super) fn query_values(
    store: &Store,
    stages: &[StageRecord],
    queries: &[String],
) -> Result<Vec<Result<QueryValue>>> {
    interruptible_query_values(store, stages, queries, |_| ())
}

/// As [`query_values`]. `opened` gets what interrupts a query.
///
/// # Errors
/// As [`query_values`].
pub(super) fn interruptible_query_values(
    store: &Store,
    stages: &[StageRecord],
    queries: &[String],
    opened: impl FnOnce(StatementInterrupt),
) -> Result<Vec<Result<QueryValue>>> {
    let session = Session::of_stages(store, stages.iter().map(StageArtefact::from))?;
    opened(session.interrupt());
    Ok(queries.iter().map(|query| query_value(&session, query)).collect())
}

/// Single number that a query gives, with the name of its column.
fn query_value(session: &Session, query: &str) -> Result<QueryValue> {
    let mut number = None;
    let mut rows = 0;
    let result = session.query(query)?;
    let columns = result.schema().fields().len();
    let name = result.schema().fields().first().map(|field| field.name().clone()).unwrap_or_default();
    for batch in result {
        let batch = batch?;
        rows += batch.num_rows();
        if columns == 1 && batch.num_rows() > 0 {
            let numbers = cast(batch.column(0), &DataType::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>();
            number = numbers.is_valid(0).then(|| numbers.value(0));
        }
    }
    match number {
        Some(value) if rows == 1 => Ok(QueryValue::new(name, value)),
        None if rows == 1 && columns == 1 => Err(Error::usage("the value is not a number")),
        _ => {
            let (rows, columns) = (format_items(rows, "rows"), format_items(columns, "columns"));
            Err(Error::usage(format!("the query gave {rows} of {columns}, wanted one number")))
        }
    }
}
