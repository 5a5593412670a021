//! Forms for reading: the table, the vertical form, the choice between them for a terminal, and the text of single values.

use std::io::Write;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Float16Type, Float32Type, Float64Type, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use az::SaturatingAs;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

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

/// Maximum length of a list that is shown in full.
const SHOWN_IN_FULL: usize = 10;
/// Number of values shown of a longer list.
const SHOWN_VALUES: usize = 3;
/// Significant digits of a float that is shown.
const SIGNIFICANT_DIGITS: i32 = 6;

/// Shortened text of all values of a batch, row by row.
///
/// Floats are rounded to six significant digits, lists of more than ten values are shortened, binary values are counted,
/// and control characters are escaped.
pub(super) fn display_rows(batch: &RecordBatch) -> Result<Vec<Vec<String>>> {
    let options = FormatOptions::default();
    let formatters = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
    let formatters = formatters.collect::<Result<Vec<_>, _>>()?;
    let row_texts = |row: usize| {
        let cells = batch.columns().iter().zip(&formatters);
        cells.map(|(column, plain)| Ok(escape_control(&display_text(column, row, plain)?))).collect()
    };
    (0..batch.num_rows()).map(row_texts).collect()
}

/// Shortened text of a value.
fn display_text(column: &ArrayRef, row: usize, plain: &ArrayFormatter<'_>) -> Result<String> {
    if column.is_null(row) || column.data_type().is_null() {
        return Ok("NULL".to_owned());
    }
    let values = match column.data_type() {
        DataType::Float16 => {
            return Ok(rounded_text(f64::from(f32::from(column.as_primitive::<Float16Type>().value(row)))));
        }
        DataType::Float32 => return Ok(rounded_text(f64::from(column.as_primitive::<Float32Type>().value(row)))),
        DataType::Float64 => return Ok(rounded_text(column.as_primitive::<Float64Type>().value(row))),
        DataType::Binary => return Ok(format!("{} bytes", column.as_binary::<i32>().value(row).len())),
        DataType::LargeBinary => return Ok(format!("{} bytes", column.as_binary::<i64>().value(row).len())),
        DataType::FixedSizeList(..) => column.as_fixed_size_list().value(row),
        DataType::List(_) => column.as_list::<i32>().value(row),
        DataType::LargeList(_) => column.as_list::<i64>().value(row),
        _ => return full_text(plain, row),
    };
    let is_vectors = matches!(values.data_type(), DataType::FixedSizeList(..));
    let shown = match values.len() {
        len if len <= SHOWN_IN_FULL && !is_vectors => len,
        _ if is_vectors => 1,
        _ => SHOWN_VALUES,
    };
    let options = FormatOptions::default();
    let plain = ArrayFormatter::try_new(&values, &options)?;
    let mut texts: Vec<String> =
        (0..shown.min(values.len())).map(|value| display_text(&values, value, &plain)).collect::<Result<_>>()?;
    if shown < values.len() {
        texts.push(format!("… {} values", values.len()));
    }
    Ok(format!("[{}]", texts.join(", ")))
}

/// Text of a value in full.
pub(super) fn full_text(formatter: &ArrayFormatter<'_>, row: usize) -> Result<String> {
    Ok(formatter.value(row).try_to_string()?)
}

/// Number rounded to six significant digits. Digits before the decimal point are never dropped.
fn rounded_text(x: f64) -> String {
    if !x.is_finite() || x == 0.0 {
        return format!("{x:?}");
    }
    // The exponent of the rounded number in scientific notation, so that 999999.6 counts as 1e6.
    let scientific = format!("{x:.5e}");
    let exponent: i32 = scientific.rsplit('e').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let decimals = SIGNIFICANT_DIGITS - 1 - exponent;
    match usize::try_from(decimals) {
        // Debug formatting of the shortest number keeps `.0`, and writes very small ones as `1.5e-7`.
        Ok(_) if exponent < 0 => scientific.parse().map_or(scientific, |rounded: f64| format!("{rounded:?}")),
        Ok(decimals) if decimals > 0 => {
            let text = format!("{x:.decimals$}");
            text.parse().map_or(text, |rounded: f64| format!("{rounded:?}"))
        }
        _ if x.fract() == 0.0 || x.abs() >= 1e15 => format!("{x:?}"),
        _ => format!("{x:.0}"),
    }
}

/// Returns true if the values of a type are aligned to the right.
pub(super) fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

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

    #[test]
    fn floats_have_six_significant_digits_and_keep_their_size() {
        for (x, shown) in [
            (345.5, "345.5"),
            (100.0, "100.0"),
            (0.123_456_789, "0.123457"),
            (23.302_482_595_222, "23.3025"),
            (-1.0 / 3.0, "-0.333333"),
            (99_999.96, "100000"),
            (999_999.6, "1000000"),
            (123_456.7, "123457"),
            (123_456_789.12, "123456789"),
            (123_456_789.0, "123456789.0"),
            (1.0e-7 / 3.0, "3.33333e-8"),
            (0.000_01, "1e-5"),
            (1e300, "1e300"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::from(0.1_f32), "0.1"),
        ] {
            assert_eq!(rounded_text(x), shown, "{x}");
        }
    }
}
