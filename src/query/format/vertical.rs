//! Vertical form of a query result: a line for each value, for rows wider than a terminal.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::cells::display_rows;
use pairloom_base::error::{Error, Result, escape_control};

/// Writer of the vertical form.
pub(super) struct VerticalWriter {
    /// Names of the columns, padded to one width.
    names: Vec<String>,
    /// Width of the names, in characters.
    width: usize,
    rows: u64,
}

impl VerticalWriter {
    pub(super) fn new(schema: &SchemaRef) -> Self {
        let names: Vec<String> = schema.fields().iter().map(|field| escape_control(field.name())).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let names = names.into_iter().map(|name| format!("{name:width$}")).collect();
        Self { names, width, rows: 0 }
    }

    /// Writes the rows of a batch.
    pub(super) fn write(&mut self, batch: &RecordBatch, out: &mut impl Write) -> Result<()> {
        self.write_rows(&display_rows(batch)?, out)
    }

    /// Writes rows of formatted values.
    pub(super) fn write_rows(&mut self, rows: &[Vec<String>], out: &mut impl Write) -> Result<()> {
        for row in rows {
            self.rows += 1;
            let mut text = format!("-- row {}\n", self.rows);
            for (name, value) in self.names.iter().zip(row) {
                // Further lines of a text start below its first.
                let next = format!("\n{:1$}", "", self.width + 3);
                text.push_str(&format!("{name} | {}\n", value.trim_end_matches('\n').replace('\n', &next)));
            }
            out.write_all(text.as_bytes())
                .map_err(|error| Error::stage(format!("cannot write the result: {error}")))?;
        }
        Ok(())
    }

    /// Writes the end: the names of the columns if there were no rows.
    pub(super) fn finish(self, out: &mut impl Write) -> Result<()> {
        if self.rows > 0 {
            return Ok(());
        }
        let names: Vec<&str> = self.names.iter().map(|name| name.trim_end()).collect();
        writeln!(out, "-- no rows; columns: {}", names.join(", "))
            .map_err(|error| Error::stage(format!("cannot write the result: {error}")))
    }
}
