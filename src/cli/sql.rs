//! `pairloom sql QUERY`: a query over the tables of a store.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::args::{CommonArgs, SqlArgs};
use super::console::Console;
use super::open;
use super::run_choice::choose_run;
use crate::error::{Error, Result};
use crate::sql::{OutputFormat, Session};
use crate::store::run_log::RunLog;

/// Maximum size of a query from stdin. The rest is not read.
const MAX_QUERY_BYTES: u64 = 1 << 20;

/// Runs a query and writes its result to stdout or a file.
///
/// # Errors
/// The query is wrong, the store is damaged, or the output cannot be written.
pub(super) fn sql(common: &CommonArgs, arguments: &SqlArgs, console: Console) -> Result<()> {
    let store = open::open_existing_store(common)?;
    let query = if arguments.query == "-" { read_query()? } else { arguments.query.clone() };
    let format = arguments.output_format(console.json)?;
    let log = Arc::new(RunLog::open(&store)?);
    let run = choose_run(&log, &arguments.of)?;
    let session = Session::of_run(&log, run)?;
    let rows = session.query(&query)?;
    if let Some(run) = run.filter(|_| session.has_read_stage()) {
        // Several pipelines have stages of the same name, so the run is named.
        console.info(&format!("run {} of {}\n", run.run, run.pipeline));
    }
    let schema = rows.schema();
    let Some(path) = &arguments.output else {
        if format == OutputFormat::Parquet && std::io::stdout().is_terminal() {
            let error = Error::usage("Parquet output cannot be printed to a terminal");
            return Err(error.hint("write it to a file with `--output`, or redirect stdout"));
        }
        let reader_closed = Arc::new(AtomicBool::new(false));
        let out = PipeWriter { inner: BufWriter::new(std::io::stdout()), reader_closed: Arc::clone(&reader_closed) };
        let result = format.write(&schema, rows, out);
        // A closed pipe is no error.
        return if reader_closed.load(Ordering::Relaxed) { Ok(()) } else { result };
    };
    // Written under another name and renamed when complete, so that a failure leaves no partial result.
    let mut name = path.clone().into_os_string();
    name.push(".part");
    let part = std::path::PathBuf::from(name);
    let file = File::create(&part).map_err(|error| Error::io("write", &part, &error))?;
    let result = format
        .write(&schema, rows, BufWriter::new(file))
        .and_then(|()| std::fs::rename(&part, path).map_err(|error| Error::io("write", path, &error)));
    if result.is_err() {
        // A leftover file does no harm.
        let _ = std::fs::remove_file(&part);
    }
    result
}

/// Reads the query from stdin.
fn read_query() -> Result<String> {
    let mut query = String::new();
    let read = std::io::stdin().take(MAX_QUERY_BYTES).read_to_string(&mut query);
    read.map_err(|error| Error::usage(format!("cannot read the query from stdin: {error}")))?;
    Ok(query)
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
