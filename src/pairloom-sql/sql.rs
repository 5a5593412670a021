//! `pairloom sql [QUERY]`: a query over the tables of a store, or a shell. Output of results to stdout, fitted to a terminal,
//! or to a file.

use std::io::{BufWriter, ErrorKind, IsTerminal, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::cluster::plan_runner;
use super::shell::{self, SessionOpener, ShellCommand};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::{ClusterUrl, NamedFile};
use pairloom_cli::args::{CommonArgs, SqlArgs};
use pairloom_cli::console::{Console, check_output, write_file};
use pairloom_cli::interrupt::interrupt_on_signal;
use pairloom_cli::open;
use pairloom_cli::run_choice::announce_run;
use pairloom_cli::units::format_items;
use pairloom_query::format::{FittedForm, write_fitted, write_wrapped};
use pairloom_query::{OutputFormat, QueryLimits, QueryRows, Session, split_statements};

/// Maximum size of a query from stdin.
const MAX_QUERY_BYTES: u64 = 1 << 20;

/// Runs a query and writes its result to stdout or a file. The results of several statements follow each other. Without
/// a query, opens a shell on a terminal, and reads the query from stdin otherwise.
///
/// # Errors
/// The query is wrong, the store is damaged, or the output cannot be written.
pub(super) fn sql(common: &CommonArgs, arguments: &SqlArgs, console: Console) -> Result<()> {
    let store = open::open_existing_store(common)?;
    let format = output_format(arguments, console.json)?;
    if let Some(path) = &arguments.output {
        check_output(path, arguments.force)?;
    }
    let cluster = arguments.cluster.cluster.as_ref();
    check_files_on_cluster(cluster, &arguments.files)?;
    let runner = plan_runner(cluster, &store)?;
    let time = arguments.query_time.map(|seconds| Duration::from_secs(seconds.into()));
    let limits = QueryLimits { memory: Some(arguments.query_memory), time };
    let opener = SessionOpener::new(&store, &arguments.files, runner, limits, console);
    let opened = opener.open(&arguments.of)?;
    let query = match arguments.query.as_deref() {
        None if std::io::stdin().is_terminal() => {
            if arguments.output.is_some() || !std::io::stdout().is_terminal() {
                return Err(
                    Error::usage("the query is missing").hint("a shell has no output file and needs a terminal")
                );
            }
            opened.print_run("; `\\run` chooses another", console);
            return shell::run(&opener, opened, format, console);
        }
        None | Some("-") => read_query()?,
        Some(query) => query.to_owned(),
    };
    // Commands of the shell that are statements in other words, such as `\d`.
    let query = if shell::is_command(&query) {
        match shell::parse(&query).map_err(Error::usage)? {
            ShellCommand::Help => return console.print(shell::HELP),
            command => shell::statement(&command).ok_or_else(|| {
                Error::usage(format!("`{}` is a command of the shell", query.trim()))
                    .hint("`pairloom sql` without a query opens the shell")
            })?,
        }
    } else {
        query
    };
    let session = &opened.session;
    if arguments.cluster.cluster.is_some() {
        // The executors would go on without this process.
        let statement = session.interrupt();
        interrupt_on_signal(move || statement.interrupt())?;
    }
    let mut announced = false;
    let statements = statements(query, arguments.output.is_none() && format != Some(OutputFormat::Parquet));
    for (i, statement) in statements.iter().enumerate() {
        let rows = session.query(statement).map_err(|error| match statements.len() {
            1 => error,
            n => error.context(format!("statement {} of {n}", i + 1)),
        })?;
        if let Some(run) = opened.run.as_ref().filter(|_| session.has_read_stage())
            && !std::mem::replace(&mut announced, true)
        {
            // Several pipelines have stages of the same name, so the run is named. Scripts read stdout.
            announce_run(run, &arguments.of, console);
        }
        missing_results_notes(session, console);
        match &arguments.output {
            Some(path) => write_to_file(rows, format.unwrap_or_default(), path)?,
            None => write_to_stdout(rows, format, console)?,
        }
    }
    Ok(())
}

/// Refuses files of this machine for queries of a cluster.
///
/// # Errors
/// There are both.
pub(super) fn check_files_on_cluster(cluster: Option<&ClusterUrl>, files: &[NamedFile]) -> Result<()> {
    if cluster.is_none() || files.is_empty() {
        return Ok(());
    }
    Err(Error::usage("`--file` names files of this machine, which the executors of a cluster do not read")
        .hint("leave `--cluster` (or `PAIRLOOM_CLUSTER`) out, or query tables of the store"))
}

/// Statements of a query. A query whose result is one file has one statement, and a session refuses several.
fn statements(query: String, can_be_several: bool) -> Vec<String> {
    let (mut statements, rest) = split_statements(&query);
    statements.extend((!rest.is_empty()).then_some(rest));
    if can_be_several && statements.len() > 1 { statements } else { vec![query] }
}

/// Says which tables that were read lack rows: those over all runs lack results that were removed, those of a repeated
/// stage the instances that a run did not finish.
pub(super) fn missing_results_notes(session: &Session, console: Console) {
    for (stage, (unfinished, all)) in session.take_incomplete_stages() {
        console.note(&format!("`{stage}` lacks {unfinished} of its {all} instances, which this run did not finish"));
    }
    for (table, count) in session.take_removed_results() {
        let results = format_items(count, "results");
        let or_earlier = if table == "rankings" { ", or whose ranks begin at 0, of an earlier build" } else { "" };
        console.info(&format!(
            "note: `all_runs.{table}` lacks {results} that `gc` removed{or_earlier}; `store.runs` keeps the best score of \
             each run\n"
        ));
    }
}

/// Reads the query from stdin.
fn read_query() -> Result<String> {
    let mut query = String::new();
    let read = std::io::stdin().take(MAX_QUERY_BYTES + 1).read_to_string(&mut query);
    read.map_err(|error| Error::usage(format!("cannot read the query from stdin: {error}")))?;
    if query.len() as u64 > MAX_QUERY_BYTES {
        // A part of a query can be another query.
        return Err(Error::usage(format!("the query has more than {MAX_QUERY_BYTES} bytes"))
            .hint("put its values into a file, and name that with `--file NAME=PATH`"));
    }
    Ok(query)
}

/// Format of the output: `--format`, or the extension of the output file, or JSON Lines for `--json`; otherwise
/// `None` for a table.
///
/// # Errors
/// The extension of the output file names no format.
fn output_format(arguments: &SqlArgs, json: bool) -> Result<Option<OutputFormat>> {
    let ending = || Some(arguments.output.as_ref()?.extension()?.to_string_lossy().to_lowercase());
    let wrong = |message| Error::usage(message).hint("name the format with `--format`");
    match arguments.format.clone().or_else(ending) {
        Some(name) => name.parse().map(Some).map_err(wrong),
        None => Ok(json.then_some(OutputFormat::Jsonl)),
    }
}

/// Width to which a table is wrapped for a reader that is no terminal, unless the variable `COLUMNS` has another.
const PIPE_COLUMNS: usize = 120;

/// Writes the result of a query to stdout. Without a format it is a table, which is fitted to a terminal, and whose long
/// texts are wrapped for other readers.
///
/// # Errors
/// The query fails, or stdout cannot be written.
fn write_to_stdout(rows: QueryRows<'_>, format: Option<OutputFormat>, console: Console) -> Result<()> {
    let note = write_shown(rows, format, BufWriter::new(std::io::stdout()))?;
    console.info(&note);
    Ok(())
}

/// Writes the result of a query to `out`, which leads to stdout. Returns a line about the result for a person at a
/// terminal, otherwise an empty text. A reader that closes `out` is no error.
///
/// # Errors
/// The query fails, or `out` cannot be written.
pub(super) fn write_shown(rows: QueryRows<'_>, format: Option<OutputFormat>, out: impl Write + Send) -> Result<String> {
    let schema = rows.schema();
    let is_terminal = std::io::stdout().is_terminal();
    if format == Some(OutputFormat::Parquet) && is_terminal {
        let error = Error::usage("Parquet output cannot be printed to a terminal");
        return Err(error.hint("write it to a file with `--output`, or redirect stdout"));
    }
    let reader_closed = Arc::new(AtomicBool::new(false));
    let out = PipeWriter { inner: out, reader_closed: Arc::clone(&reader_closed) };
    let width = terminal_size::terminal_size().filter(|_| is_terminal).map(|(width, _)| usize::from(width.0));
    let result = match (format, width) {
        (None, Some(width)) => write_fitted(width, &schema, rows, out).map(|(form, rows)| {
            let note = match form {
                FittedForm::CutTable => "; long texts are cut, the format `vertical` shows them in full",
                FittedForm::Table | FittedForm::Vertical => "",
            };
            let plural = if rows == 1 { "" } else { "s" };
            format!("({rows} row{plural}{note})\n")
        }),
        (None, None) => write_wrapped(pipe_columns(), &schema, rows, out).map(|()| String::new()),
        (Some(format), _) => format.write(&schema, rows, out).map(|()| String::new()),
    };
    if reader_closed.load(Ordering::Relaxed) { Ok(String::new()) } else { result }
}

/// Width of a table for a reader that is no terminal.
fn pipe_columns() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    columns.filter(|&columns| columns > 0).unwrap_or(PIPE_COLUMNS)
}

/// Writes the result of a query to a file; see [`write_file`].
///
/// # Errors
/// The query fails, or the file cannot be written.
fn write_to_file(rows: QueryRows<'_>, format: OutputFormat, path: &Path) -> Result<()> {
    write_file(path, |file| format.write(&rows.schema(), rows, file))
}

/// Writer that records if its pipe was closed.
struct PipeWriter<W> {
    inner: W,
    reader_closed: Arc<AtomicBool>,
}

impl<W> PipeWriter<W> {
    fn watch<T>(&self, result: std::io::Result<T>) -> std::io::Result<T> {
        if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
            self.reader_closed.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl<W: Write> Write for PipeWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let result = self.inner.write(bytes);
        self.watch(result)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let result = self.inner.flush();
        self.watch(result)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use pairloom_cli::args::{ClusterChoiceArgs, RunChoiceArgs};

    #[test]
    fn output_format_by_option_extension_and_default() {
        let form = |format: Option<&str>, output: Option<&str>, json| {
            let (format, output) = (format.map(str::to_owned), output.map(PathBuf::from));
            let of = RunChoiceArgs::default();
            let cluster = ClusterChoiceArgs::default();
            let (files, query_memory) = (vec![], 1);
            let arguments = SqlArgs {
                query: None,
                of,
                format,
                output,
                force: false,
                files,
                query_memory,
                query_time: None,
                cluster,
            };
            output_format(&arguments, json).map_err(|error| error.to_string())
        };
        assert_eq!(form(None, None, false), Ok(None));
        assert_eq!(form(None, Some("answer"), true), Ok(Some(OutputFormat::Jsonl)));
        assert_eq!(form(None, Some("answer.CSV"), true), Ok(Some(OutputFormat::Csv)));
        assert_eq!(form(Some("parquet"), Some("answer.xyz"), false), Ok(Some(OutputFormat::Parquet)));
        let wrong = form(None, Some("answer.xyz"), false).expect_err("an unknown format");
        assert_eq!(wrong, "unknown format `xyz`; there are `table`, `vertical`, `json`, `jsonl`, `csv`, `parquet`");
    }

    #[test]
    fn a_missing_folder_is_named_with_the_output_file() {
        let folder = tempfile::tempdir().unwrap();
        let session = Session::of_empty_tables([]).unwrap();
        let path = folder.path().join("none/x.csv");
        let error = write_to_file(session.query("SELECT 1").unwrap(), OutputFormat::Csv, &path).unwrap_err();
        assert!(error.to_string().starts_with(&format!("cannot write `{}`: ", path.display())), "{error}");
    }
}
