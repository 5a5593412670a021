//! Output of query results: to stdout, fitted to a terminal, or to a file.

use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pairloom_base::error::{Error, Result};
use pairloom_cli::console::Console;
use pairloom_cli::output_file::write_file;
use pairloom_query::format::{FittedForm, write_fitted, write_wrapped};
use pairloom_query::{OutputFormat, QueryRows};

/// Width to which a table is wrapped for a reader that is no terminal, unless the variable `COLUMNS` has another.
const PIPE_COLUMNS: usize = 120;

/// Writes the result of a query to stdout. Without a format it is a table, which is fitted to a terminal, and whose long
/// texts are wrapped for other readers.
///
/// # Errors
/// The query fails, or stdout cannot be written.
pub(super) fn write_to_stdout(rows: QueryRows<'_>, format: Option<OutputFormat>, console: Console) -> Result<()> {
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
pub(super) fn write_to_file(rows: QueryRows<'_>, format: OutputFormat, path: &Path) -> Result<()> {
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
    use super::*;

    #[test]
    fn a_missing_folder_is_named_with_the_output_file() {
        let folder = tempfile::tempdir().unwrap();
        let session = pairloom_query::Session::of_empty_tables([]).unwrap();
        let path = folder.path().join("none/x.csv");
        let error = write_to_file(session.query("SELECT 1").unwrap(), OutputFormat::Csv, &path).unwrap_err();
        assert!(error.to_string().starts_with(&format!("cannot write `{}`: ", path.display())), "{error}");
    }
}
