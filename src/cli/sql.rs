//! `pairloom sql [QUERY]`: a query over the tables of a store, or a shell.

use std::io::{IsTerminal, Read};
use std::sync::Arc;

use super::args::{CommonArgs, SqlArgs};
use super::console::Console;
use super::open;
use super::query_output::{write_to_file, write_to_stdout};
use super::run_choice::{announce_run, choose_run};
use super::shell;
use crate::error::{Error, Result};
use crate::sql::Session;

/// Maximum size of a query from stdin. The rest is not read.
const MAX_QUERY_BYTES: u64 = 1 << 20;

/// Runs a query and writes its result to stdout or a file. Without a query, opens a shell on a terminal, and reads the
/// query from stdin otherwise.
///
/// # Errors
/// The query is wrong, the store is damaged, or the output cannot be written.
pub(super) fn sql(common: &CommonArgs, arguments: &SqlArgs, console: Console) -> Result<()> {
    let store = open::open_existing_store(common)?;
    let format = arguments.output_format(console.json)?;
    let log = Arc::new(open::open_log(&store, console)?);
    let run = choose_run(&log, &arguments.of)?;
    let mut session = Session::of_run(&log, run)?;
    for file in &arguments.files {
        session.add_file(file.clone())?;
    }
    let query = match arguments.query.as_deref() {
        None if std::io::stdin().is_terminal() => {
            if arguments.output.is_some() || !std::io::stdout().is_terminal() {
                return Err(
                    Error::usage("the query is missing").hint("a shell has no output file and needs a terminal")
                );
            }
            if let Some(run) = run {
                console.note(&format!("run {} of {}; `--run` chooses another", run.run, run.pipeline));
            }
            return shell::run(&session, format, console);
        }
        None | Some("-") => read_query()?,
        Some(query) => query.to_owned(),
    };
    let rows = session.query(&query)?;
    if let Some(run) = run.filter(|_| session.has_read_stage()) {
        // Several pipelines have stages of the same name, so the run is named. Scripts read stdout.
        announce_run(run, &arguments.of, console);
    }
    match &arguments.output {
        Some(path) => write_to_file(rows, format.unwrap_or_default(), path),
        None => write_to_stdout(rows, format, console),
    }
}

/// Reads the query from stdin.
fn read_query() -> Result<String> {
    let mut query = String::new();
    let read = std::io::stdin().take(MAX_QUERY_BYTES).read_to_string(&mut query);
    read.map_err(|error| Error::usage(format!("cannot read the query from stdin: {error}")))?;
    Ok(query)
}
