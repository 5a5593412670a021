//! Output of query results: to stdout, fitted to a terminal, or to a file.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::console::Console;
use crate::error::{Error, Result};
use crate::sql::format::{FittedForm, write_fitted};
use crate::sql::{OutputFormat, QueryRows};

/// Writes the result of a query to stdout. Without a format it is a table, which is fitted to a terminal.
///
/// # Errors
/// The query fails, or stdout cannot be written.
pub(super) fn write_to_stdout(rows: QueryRows<'_>, format: Option<OutputFormat>, console: Console) -> Result<()> {
    let schema = rows.schema();
    let is_terminal = std::io::stdout().is_terminal();
    if format == Some(OutputFormat::Parquet) && is_terminal {
        let error = Error::usage("Parquet output cannot be printed to a terminal");
        return Err(error.hint("write it to a file with `--output`, or redirect stdout"));
    }
    let reader_closed = Arc::new(AtomicBool::new(false));
    let out = PipeWriter { inner: BufWriter::new(std::io::stdout()), reader_closed: Arc::clone(&reader_closed) };
    let width = terminal_size::terminal_size().filter(|_| is_terminal).map(|(width, _)| usize::from(width.0));
    let result = match (format, width) {
        (None, Some(width)) => write_fitted(width, &schema, rows, out).map(|(form, rows)| {
            let note = match form {
                FittedForm::CutTable => "; long texts are cut, the format `vertical` shows them in full",
                FittedForm::Table | FittedForm::Vertical => "",
            };
            let plural = if rows == 1 { "" } else { "s" };
            console.info(&format!("({rows} row{plural}{note})\n"));
        }),
        _ => format.unwrap_or_default().write(&schema, rows, out),
    };
    // A closed pipe is no error.
    if reader_closed.load(Ordering::Relaxed) { Ok(()) } else { result }
}

/// Writes the result of a query to a file: under another name, which is renamed when it is complete, so that a failure
/// leaves no partial result.
///
/// # Errors
/// The query fails, or the file cannot be written.
pub(super) fn write_to_file(rows: QueryRows<'_>, format: OutputFormat, path: &Path) -> Result<()> {
    let mut name = path.to_owned().into_os_string();
    name.push(".part");
    let part = PathBuf::from(name);
    let file = File::create(&part).map_err(|error| Error::io("write", &part, &error))?;
    let result = format
        .write(&rows.schema(), rows, BufWriter::new(file))
        .and_then(|()| std::fs::rename(&part, path).map_err(|error| Error::io("write", path, &error)));
    if result.is_err() {
        // A leftover file does no harm.
        let _ = std::fs::remove_file(&part);
    }
    result
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
