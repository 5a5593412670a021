//! Table form of a query result, and the choice between it and the vertical form for a terminal.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table};

use super::cells::{display_rows, is_number};
use super::vertical::VerticalWriter;
use crate::error::{Error, Result, escape_control};

/// Borders of the table: `+---+` and `|`.
const BORDERS: &str = "||--+-++|    ++++++";
/// Characters of a text that a table shows if it is wider than the terminal otherwise.
const CUT_TEXT: usize = 60;

/// Form in which a result was shown on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FittedForm {
    /// Table with all texts in full.
    Table,
    /// Table whose long texts are cut.
    CutTable,
    /// Vertical form, because the table is wider than the terminal.
    Vertical,
}

/// Writes a result as a table if it fits into `width` columns of a terminal, with texts cut to 60 characters if that
/// helps, otherwise in the vertical form. Holds all rows in memory. Returns the form and the number of rows.
///
/// # Errors
/// A batch of `rows` is an error, or `out` cannot be written.
pub fn write_fitted(
    width: usize,
    schema: &SchemaRef,
    rows: impl Iterator<Item = Result<RecordBatch>>,
    mut out: impl Write,
) -> Result<(FittedForm, usize)> {
    let rows = all_rows(rows)?;
    let mut form = FittedForm::Table;
    let mut lines = table_lines(schema, &rows);
    if table_width(&lines) > width && !rows.iter().flatten().any(|text| text.contains('\n')) {
        form = FittedForm::CutTable;
        let cut: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|text| cut_text(text)).collect()).collect();
        lines = table_lines(schema, &cut);
    }
    if table_width(&lines) > width {
        let mut vertical = VerticalWriter::new(schema);
        vertical.write_rows(&rows, &mut out)?;
        vertical.finish(&mut out)?;
        form = FittedForm::Vertical;
    } else {
        write_lines(&lines, &mut out)?;
    }
    out.flush().map_err(|error| write_error(&error))?;
    Ok((form, rows.len()))
}

/// Writes a result as a table, with texts in full. Holds all rows in memory.
pub(super) fn write_table(
    schema: &SchemaRef,
    rows: impl Iterator<Item = Result<RecordBatch>>,
    out: &mut impl Write,
) -> Result<()> {
    write_lines(&table_lines(schema, &all_rows(rows)?), out)
}

/// Text of all values, row by row.
fn all_rows(batches: impl Iterator<Item = Result<RecordBatch>>) -> Result<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    for batch in batches {
        rows.extend(display_rows(&batch?)?);
    }
    Ok(rows)
}

/// Lines of the table, with numbers aligned to the right.
fn table_lines(schema: &SchemaRef, rows: &[Vec<String>]) -> Vec<String> {
    let mut table = Table::new();
    table.load_preset(BORDERS).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(schema.fields().iter().map(|field| escape_control(field.name())));
    table.add_rows(rows);
    for (column, field) in table.column_iter_mut().zip(schema.fields()) {
        if is_number(field.data_type()) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    table.lines().collect()
}

/// Width of a table: that of its upper border.
fn table_width(lines: &[String]) -> usize {
    lines.first().map_or(0, |line| line.chars().count())
}

/// First characters of a long text.
fn cut_text(text: &str) -> String {
    match text.char_indices().nth(CUT_TEXT) {
        Some(_) => text.chars().take(CUT_TEXT - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

fn write_lines(lines: &[String], out: &mut impl Write) -> Result<()> {
    for line in lines {
        writeln!(out, "{line}").map_err(|error| write_error(&error))?;
    }
    Ok(())
}

fn write_error(error: &std::io::Error) -> Error {
    Error::stage(format!("cannot write the result: {error}"))
}
