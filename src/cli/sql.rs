//! `pairloom sql QUERY`.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::args::{Common, Sql};
use super::open;
use super::output::Output;
use crate::error::{Error, Result};
use crate::sql::{Format, Session};

/// Largest query that is read from stdin, in bytes.
const LARGEST: u64 = 1 << 20;

/// Answers a query over the tables of a store.
///
/// # Errors
/// The query is wrong, the store is damaged, or the output cannot be written.
pub(super) fn sql(common: &Common, arguments: &Sql, output: Output) -> Result<()> {
    let store = open::existing_store(common)?;
    let query = if arguments.query == "-" { read()? } else { arguments.query.clone() };
    let form = arguments.form(output.json)?;
    let session = Session::open(&store)?;
    let rows = session.query(&query)?;
    let schema = rows.schema();
    let Some(path) = &arguments.output else {
        if form == Format::Parquet && std::io::stdout().is_terminal() {
            let error = Error::usage("Parquet is not for a terminal");
            return Err(error.hint("name a file with `--output`, or send stdout to one"));
        }
        let gone = Arc::new(AtomicBool::new(false));
        let out = Pipe { inner: BufWriter::new(std::io::stdout()), gone: Arc::clone(&gone) };
        let result = form.write(&schema, rows, out);
        // A reader that has seen enough is fine.
        return if gone.load(Ordering::Relaxed) { Ok(()) } else { result };
    };
    // Under another name until it is whole, so that a failure leaves nothing that looks like an answer.
    let mut name = path.clone().into_os_string();
    name.push(".part");
    let part = std::path::PathBuf::from(name);
    let file = File::create(&part).map_err(|error| Error::io("write", &part, &error))?;
    let result = form
        .write(&schema, rows, BufWriter::new(file))
        .and_then(|()| std::fs::rename(&part, path).map_err(|error| Error::io("write", path, &error)));
    if result.is_err() {
        // What cannot be removed is only untidy.
        let _ = std::fs::remove_file(&part);
    }
    result
}

/// The query from stdin.
fn read() -> Result<String> {
    let mut query = String::new();
    let read = std::io::stdin().take(LARGEST).read_to_string(&mut query);
    read.map_err(|error| Error::usage(format!("cannot read the query from stdin: {error}")))?;
    Ok(query)
}

/// A writer that remembers that its reader went away.
struct Pipe<W> {
    inner: W,
    gone: Arc<AtomicBool>,
}

impl<W> Pipe<W> {
    fn watch<T>(&self, result: std::io::Result<T>) -> std::io::Result<T> {
        if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
            self.gone.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl<W: Write> Write for Pipe<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let result = self.inner.write(bytes);
        self.watch(result)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let result = self.inner.flush();
        self.watch(result)
    }
}
