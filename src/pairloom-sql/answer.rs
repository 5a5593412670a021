//! Answer to a request of another program.

use std::io::{BufRead, Write};
use std::process::ExitCode;

use serde::Serialize;

use super::cluster::search_sections;
use super::queries::{check_queries, interruptible_query_values};
use super::stdin_end::at_end_of_stdin;
use pairloom_base::error::{Error, Result, catch_panic};
use pairloom_base::runtime::ErrorMessage;
use pairloom_cli::check_build;
use pairloom_cli::open::open_named_store;
use pairloom_cli::sql_requests::{SqlAnswer, SqlRequest};
use pairloom_query::StatementInterrupt;

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
