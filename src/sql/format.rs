//! Output formats of query results: text tables, JSON, CSV and Parquet.

use std::fmt::Write as _;
use std::io::Write;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::csv::WriterBuilder;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::json::writer::{JsonArray, LineDelimited, WriterBuilder as JsonBuilder};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::util::pretty::pretty_format_batches_with_options;
use parquet::arrow::ArrowWriter;

use crate::error::{Error, Result, escape_control};
use crate::tables;

/// Maximum length of a list that a text table shows in full.
const SHOWN_IN_FULL: usize = 10;
/// Number of values shown of a longer list.
const SHOWN_VALUES: usize = 3;

/// Output format of a query result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputFormat {
    /// Text table. Long lists and binary values are shortened.
    #[default]
    Table,
    /// One JSON array of objects.
    Json,
    /// JSON Lines: one object per line.
    Jsonl,
    /// Comma-separated values with a header. Lists are written as `[0.1, 0.2]`.
    Csv,
    /// Parquet file with the types of the result.
    Parquet,
}

impl OutputFormat {
    /// All formats with their names.
    pub const ALL: [(&'static str, Self); 5] = [
        ("table", Self::Table),
        ("json", Self::Json),
        ("jsonl", Self::Jsonl),
        ("csv", Self::Csv),
        ("parquet", Self::Parquet),
    ];

    /// Writes a query result. [`OutputFormat::Table`] holds all rows in memory, other formats one batch at a time.
    ///
    /// # Errors
    /// A batch of `rows` is an error, or `out` cannot be written.
    pub fn write(
        self,
        schema: &SchemaRef,
        rows: impl Iterator<Item = Result<RecordBatch>>,
        mut out: impl Write + Send,
    ) -> Result<()> {
        match self {
            Self::Table => {
                let mut batches = vec![format_columns(&RecordBatch::new_empty(Arc::clone(schema)), display_text)?];
                for batch in rows {
                    batches.push(format_columns(&batch?, display_text)?);
                }
                let options = FormatOptions::default().with_null("NULL");
                writeln!(out, "{}", pretty_format_batches_with_options(&batches, &options)?)
                    .map_err(|e| write_error(&e))?;
            }
            Self::Json => {
                let mut writer = JsonBuilder::new().with_explicit_nulls(true).build::<_, JsonArray>(&mut out);
                for batch in rows {
                    writer.write(&batch?).map_err(|e| write_error(&e))?;
                }
                writer.finish().map_err(|e| write_error(&e))?;
                writeln!(out).map_err(|e| write_error(&e))?;
            }
            Self::Jsonl => {
                let mut writer = JsonBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(&mut out);
                for batch in rows {
                    writer.write(&batch?).map_err(|e| write_error(&e))?;
                }
                writer.finish().map_err(|e| write_error(&e))?;
            }
            Self::Csv => {
                let mut writer = WriterBuilder::new().with_header(true).build(&mut out);
                writer
                    .write(&format_columns(&RecordBatch::new_empty(Arc::clone(schema)), full_text)?)
                    .map_err(|e| write_error(&e))?;
                for batch in rows {
                    writer.write(&format_columns(&batch?, full_text)?).map_err(|e| write_error(&e))?;
                }
            }
            Self::Parquet => {
                let mut writer =
                    ArrowWriter::try_new(&mut out, Arc::clone(schema), None).map_err(|e| write_error(&e))?;
                for batch in rows {
                    writer.write(&batch?).map_err(|e| write_error(&e))?;
                }
                writer.close().map_err(|e| write_error(&e))?;
            }
        }
        out.flush().map_err(|error| write_error(&error))
    }
}

impl FromStr for OutputFormat {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<String> = Self::ALL.iter().map(|(name, _)| format!("`{name}`")).collect();
            format!("unknown format `{name}`; there are {}", names.join(", "))
        })
    }
}

fn write_error(error: &dyn std::error::Error) -> Error {
    Error::stage(format!("cannot write the result: {error}"))
}

/// Function that formats a value of a list, binary or text column: (column, row, formatter of the column).
type FormatValue = fn(&ArrayRef, usize, &ArrayFormatter<'_>) -> Result<String>;

/// Replaces list, binary and text columns by columns of formatted text, for text tables and CSV.
fn format_columns(batch: &RecordBatch, text: FormatValue) -> Result<RecordBatch> {
    let schema = batch.schema_ref();
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        let kind = field.data_type();
        if !kind.is_nested() && !kind.is_binary() && !kind.is_string() {
            fields.push(Arc::clone(field));
            columns.push(Arc::clone(column));
            continue;
        }
        let options = FormatOptions::default();
        let formatter = ArrayFormatter::try_new(column, &options)?;
        let texts = (0..column.len())
            .map(|row| if column.is_null(row) { Ok(None) } else { text(column, row, &formatter).map(Some) });
        fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, true)));
        columns.push(Arc::new(texts.collect::<Result<StringArray>>()?) as ArrayRef);
    }
    if columns.is_empty() {
        return Ok(batch.clone());
    }
    tables::batch(&Arc::new(Schema::new(fields)), columns)
}

fn full_text(_: &ArrayRef, row: usize, formatter: &ArrayFormatter<'_>) -> Result<String> {
    Ok(formatter.value(row).try_to_string()?)
}

/// Shortened text with control characters escaped, for terminals.
fn display_text(column: &ArrayRef, row: usize, formatter: &ArrayFormatter<'_>) -> Result<String> {
    shortened_text(column, row, formatter).map(|text| escape_control(&text))
}

fn shortened_text(column: &ArrayRef, row: usize, formatter: &ArrayFormatter<'_>) -> Result<String> {
    let values = match column.data_type() {
        DataType::FixedSizeList(..) => column.as_fixed_size_list().value(row),
        DataType::List(_) => column.as_list::<i32>().value(row),
        DataType::LargeList(_) => column.as_list::<i64>().value(row),
        DataType::Binary => return Ok(format!("{} bytes", column.as_binary::<i32>().value(row).len())),
        DataType::LargeBinary => return Ok(format!("{} bytes", column.as_binary::<i64>().value(row).len())),
        _ => return full_text(column, row, formatter),
    };
    let vectors = matches!(values.data_type(), DataType::FixedSizeList(..));
    if values.len() <= SHOWN_IN_FULL && !vectors {
        return full_text(column, row, formatter);
    }
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(&values, &options)?;
    let mut text = String::from("[");
    let shown = if vectors { 1 } else { SHOWN_VALUES };
    for value in 0..shown.min(values.len()) {
        write!(text, "{}, ", shortened_text(&values, value, &formatter)?)
            .map_err(|e| Error::internal(e.to_string()))?;
    }
    write!(text, "… {} values]", values.len()).map_err(|e| Error::internal(e.to_string()))?;
    Ok(text)
}
