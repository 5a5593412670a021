//! Table form of a query result, and the choice between it and the vertical form for a terminal.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, SchemaRef};
use az::SaturatingAs;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

use super::cells::{display_rows, is_number};
use super::vertical::VerticalWriter;
use pairloom_base::error::{Error, Result, escape_control};

/// Borders of the table: `+---+` and `|`.
const BORDERS: &str = "||--+-++|    ++++++";
/// Smallest width to which a column of texts is narrowed.
const NARROWEST: usize = 20;
/// Lines over which a text is wrapped in a narrowed column. The rest is cut.
const WRAPPED_LINES: usize = 6;
/// Largest size of a table in bytes, which is all in memory.
const MAX_TABLE_BYTES: usize = 512 << 20;
/// Bytes of a cell besides its text: places of the text, its lines and their style.
const CELL_BYTES: usize = 256;
/// Characters of a column besides its content: a space on both sides and a border.
const COLUMN_FRAME: usize = 3;

/// Form in which a result was shown on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FittedForm {
    /// Table with all texts in full, some perhaps over several lines.
    Table,
    /// Table whose long texts are cut.
    CutTable,
    /// Vertical form, because the table is wider than the terminal.
    Vertical,
}

/// Writes a result as a table if it fits into `width` columns of a terminal, with texts over at most six lines if that
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
    let columns = FittedColumns::new(schema, &rows, |_| NARROWEST);
    let form = if columns.frame_width(None) <= width {
        write_lines(&table_lines(schema, &rows, &columns, None), &mut out)?;
        FittedForm::Table
    } else if let Some(limit) = columns.text_limit(width)
        // Texts with lines of their own, such as plans, are not wrapped again.
        && !has_lines(&rows)
    {
        let cut_length = limit * WRAPPED_LINES;
        let is_cut = rows.iter().flatten().any(|text| text.chars().count() > cut_length);
        let cut: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|text| cut_text(text, cut_length)).collect()).collect();
        write_lines(&table_lines(schema, &cut, &columns, Some(limit)), &mut out)?;
        if is_cut { FittedForm::CutTable } else { FittedForm::Table }
    } else {
        let mut vertical = VerticalWriter::new(schema);
        vertical.write_rows(&rows, &mut out)?;
        vertical.finish(&mut out)?;
        FittedForm::Vertical
    };
    out.flush().map_err(|error| write_error(&error))?;
    Ok((form, rows.len()))
}

/// Writes a result as a table for a reader that is no terminal. Long texts are wrapped between words if the table then
/// fits into `width` columns; nothing is cut. Holds all rows in memory.
///
/// # Errors
/// A batch of `rows` is an error, or `out` cannot be written.
pub fn write_wrapped(
    width: usize,
    schema: &SchemaRef,
    rows: impl Iterator<Item = Result<RecordBatch>>,
    mut out: impl Write,
) -> Result<()> {
    let rows = all_rows(rows)?;
    // A word is never broken, so that searching in the output finds names and keys.
    let longest_word = |column: usize| {
        let words = rows.iter().filter_map(|row| row.get(column)).flat_map(|text| text.split_whitespace());
        words.map(|word| word.chars().count()).max().unwrap_or(0).max(NARROWEST)
    };
    let columns = FittedColumns::new(schema, &rows, longest_word);
    let is_wide = columns.frame_width(None) > width && !has_lines(&rows);
    let limit = if is_wide { columns.text_limit(width) } else { None };
    write_lines(&table_lines(schema, &rows, &columns, limit), &mut out)?;
    out.flush().map_err(|error| write_error(&error))
}

fn has_lines(rows: &[Vec<String>]) -> bool {
    rows.iter().flatten().any(|text| text.contains('\n'))
}

/// Widths of the columns of a table, in characters.
struct FittedColumns {
    /// Width of the widest line of each column.
    widths: Vec<usize>,
    /// Width to which a column can be narrowed; `None` for numbers and for columns that are narrow already.
    narrowest: Vec<Option<usize>>,
}

impl FittedColumns {
    fn new(schema: &SchemaRef, rows: &[Vec<String>], narrowest: impl Fn(usize) -> usize) -> Self {
        let widths = column_widths(schema, rows);
        let columns = widths.iter().zip(schema.fields()).enumerate();
        let narrowest = columns.map(|(at, (&width, field))| is_wrapped(field, width).then(|| narrowest(at)));
        let narrowest = narrowest.collect();
        Self { widths, narrowest }
    }

    /// Width of a column if texts are wrapped to `limit` characters, and true if it is narrowed.
    fn width(&self, column: usize, limit: Option<usize>) -> (usize, bool) {
        let width = self.widths.get(column).copied().unwrap_or(0);
        match (self.narrowest.get(column).copied().flatten(), limit) {
            (Some(narrowest), Some(limit)) => (width.min(limit.max(narrowest)), true),
            _ => (width, false),
        }
    }

    /// Width of the table with its borders.
    fn frame_width(&self, limit: Option<usize>) -> usize {
        1 + (0..self.widths.len()).map(|column| self.width(column, limit).0 + COLUMN_FRAME).sum::<usize>()
    }

    /// Largest width of columns of texts and lists at which the table fits into `width`.
    fn text_limit(&self, width: usize) -> Option<usize> {
        (NARROWEST..width).rev().find(|&limit| self.frame_width(Some(limit)) <= width)
    }
}

/// Widths of the columns, in characters.
fn column_widths(schema: &SchemaRef, rows: &[Vec<String>]) -> Vec<usize> {
    let mut widths: Vec<usize> = schema.fields().iter().map(|field| field.name().chars().count()).collect();
    for row in rows {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = text.lines().map(|line| line.chars().count()).fold(*width, usize::max);
        }
    }
    widths
}

/// Returns true if a column may be narrowed: one of texts or lists whose name is not wider.
fn is_wrapped(field: &Field, width: usize) -> bool {
    width > NARROWEST && field.name().chars().count() <= NARROWEST && !is_number(field.data_type())
}

/// Writes a result as a table, with texts in full. Holds all rows in memory.
pub(super) fn write_table(
    schema: &SchemaRef,
    rows: impl Iterator<Item = Result<RecordBatch>>,
    out: &mut impl Write,
) -> Result<()> {
    let rows = all_rows(rows)?;
    let columns = FittedColumns::new(schema, &rows, |_| NARROWEST);
    write_lines(&table_lines(schema, &rows, &columns, None), out)
}

/// Text of all values, row by row.
fn all_rows(batches: impl Iterator<Item = Result<RecordBatch>>) -> Result<Vec<Vec<String>>> {
    rows_within(MAX_TABLE_BYTES, batches)
}

/// As [`all_rows`], of at most `limit` bytes.
fn rows_within(limit: usize, batches: impl Iterator<Item = Result<RecordBatch>>) -> Result<Vec<Vec<String>>> {
    let (mut rows, mut bytes) = (Vec::new(), 0);
    for batch in batches {
        let texts = display_rows(&batch?)?;
        bytes += texts.iter().flatten().map(|text| CELL_BYTES + text.len()).sum::<usize>();
        rows.extend(texts);
        if bytes > limit {
            let message = format!("the result is too large for a table: {} rows are not all of it", rows.len());
            return Err(Error::usage(message).hint("add a `LIMIT`, or choose the format csv, jsonl or parquet"));
        }
    }
    Ok(rows)
}

/// Lines of the table, with numbers aligned to the right, and texts wrapped to `limit` characters.
fn table_lines(schema: &SchemaRef, rows: &[Vec<String>], columns: &FittedColumns, limit: Option<usize>) -> Vec<String> {
    let mut table = Table::new();
    table.load_preset(BORDERS).set_content_arrangement(ContentArrangement::Disabled);
    if limit.is_some() {
        // Texts are wrapped in the columns of a fixed width only.
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(u16::MAX);
    }
    table.set_header(schema.fields().iter().map(|field| escape_control(field.name())));
    table.add_rows(rows);
    for (at, (column, field)) in table.column_iter_mut().zip(schema.fields()).enumerate() {
        if is_number(field.data_type()) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        column.set_constraint(match columns.width(at, limit) {
            // The width counts the spaces on both sides.
            (width, true) => ColumnConstraint::Absolute(Width::Fixed((width + 2).saturating_as())),
            _ => ColumnConstraint::ContentWidth,
        });
    }
    table.lines().collect()
}

/// First characters of a long text.
fn cut_text(text: &str, length: usize) -> String {
    match text.char_indices().nth(length) {
        Some(_) => text.chars().take(length - 1).chain(['…']).collect(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scores;

    #[test]
    fn a_result_beyond_the_limit_is_refused_before_it_is_read_to_its_end() {
        let batches = || std::iter::repeat_n(scores(&[("nns", 1.0), ("csls", 2.0)]), 10).map(Ok);
        // Texts of 3, 4 and twice 3 bytes, in four cells.
        let of_batch = 13 + 4 * 256;
        assert_eq!(rows_within(10 * of_batch, batches()).unwrap().len(), 20);
        let mut taken = 0;
        let error = rows_within(3 * of_batch - 1, batches().inspect(|_| taken += 1)).unwrap_err();
        assert_eq!(taken, 3);
        assert!(error.to_string().contains("too large for a table: 6 rows are not all of it"), "{error}");
        assert!(error.hint_text().is_some_and(|hint| hint.contains("`LIMIT`") && hint.contains("csv")));
    }
}
