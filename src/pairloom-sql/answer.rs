//! Answers to requests of other programs: queries of the `[[expect]]` tables of a pipeline, and sections of searches. The end
//! of stdin, by which the other program cancels its request, stops them.

use std::io::{BufRead, Read, Write};
use std::process::ExitCode;

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use serde::Serialize;

use super::cluster::search_sections;
use pairloom_base::error::{Error, Result, catch_panic};
use pairloom_base::runtime::ErrorMessage;
use pairloom_cli::check_build;
use pairloom_cli::open::open_named_store;
use pairloom_cli::sql_requests::{QueryValue, SqlAnswer, SqlRequest, TableDeclaration};
use pairloom_cli::units::format_items;
use pairloom_query::{DeclaredTable, Session, StageArtefact, StatementInterrupt};
use pairloom_store::Store;
use pairloom_store::record::StageRecord;

/// Reads a request from stdin and writes its answer to stdout. The end of stdin cancels it.
pub(super) fn answer() -> ExitCode {
    let line = catch_panic(|| check_build().and_then(|()| read_request()).and_then(answer_of));
    let line = line.or_else(|error| json::<()>(Err(ErrorMessage::from(&error))));
    let written = line.map(|mut line| {
        line.push('\n');
        let mut out = std::io::stdout().lock();
        out.write_all(line.as_bytes()).and_then(|()| out.flush())
    });
    match written {
        Ok(Ok(())) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn read_request() -> Result<SqlRequest> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Error::internal(format!("cannot read the request: {error}")))?;
    serde_json::from_str(&line).map_err(|error| {
        Error::usage(format!("got no request on stdin: {error}"))
            .hint("other programs of Pairloom start `pairloom-sql` in this way; people use `pairloom sql`")
    })
}

/// Answer to a request as a line of JSON.
fn answer_of(request: SqlRequest) -> Result<String> {
    match request {
        SqlRequest::CheckQueries { tables, queries } => {
            let errors = check_queries(&tables, &queries)?;
            json(Ok(errors.iter().map(|error| error.as_ref().map(ErrorMessage::from)).collect::<Vec<_>>()))
        }
        SqlRequest::QueryValues { store, stages, queries } => {
            let store = open_named_store(&store)?;
            let interrupt_at_end = |statement: StatementInterrupt| {
                at_end_of_stdin(move || {
                    // Without a running statement there is nothing to end.
                    let _ = statement.interrupt();
                });
            };
            let values = interruptible_query_values(&store, &stages, &queries, interrupt_at_end)?;
            let values = values.into_iter().map(|value| value.map_err(|error| ErrorMessage::from(&error)));
            json(Ok(values.collect::<Vec<_>>()))
        }
        SqlRequest::RunSections { cluster, store, folder, job, sections } => {
            let store = open_named_store(&store)?;
            search_sections(&cluster, &store, (&folder, &job), &sections)?;
            json(Ok(()))
        }
    }
}

fn json<T: Serialize>(answer: SqlAnswer<T>) -> Result<String> {
    serde_json::to_string(&answer).map_err(|error| Error::internal(error.to_string()))
}

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
                Some(Error::usage(format!("the query gives {}, expected one number", format_items(columns, "columns"))))
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
fn interruptible_query_values(
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
            Err(Error::usage(format!("the query gave {rows} of {columns}, expected one number")))
        }
    }
}

/// Calls `stop` on a thread of its own when stdin ends: nobody waits for the answer any more.
pub(super) fn at_end_of_stdin(stop: impl FnOnce() + Send + 'static) {
    let watch = move || {
        // A request has one line, so nothing follows.
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        stop();
    };
    // Without the thread the request runs to its end.
    let _ = std::thread::Builder::new().name("stdin".to_owned()).spawn(watch);
}
