//! Answers as text for people, and as JSON, CSV and Parquet for programs.

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

use crate::error::{Error, Result, visible};
use crate::tables;

/// Values of a vector that a table for people shows in full.
const SHOWN_IN_FULL: usize = 10;
/// Values of a longer vector that it shows.
const SHOWN: usize = 3;

/// A form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// A table for people; long vectors and pictures are shortened.
    #[default]
    Table,
    /// One JSON array of objects.
    Json,
    /// One JSON object a line.
    Jsonl,
    /// Comma-separated values with a header; vectors as `[0.1, 0.2]`.
    Csv,
    /// A Parquet file, with the types as they are.
    Parquet,
}

impl Format {
    /// All forms, by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("table", Self::Table),
        ("json", Self::Json),
        ("jsonl", Self::Jsonl),
        ("csv", Self::Csv),
        ("parquet", Self::Parquet),
    ];

    /// Writes an answer. All forms but [`Format::Table`] hold one batch at a time.
    ///
    /// # Errors
    /// The first error of `rows`, or of `out`.
    pub fn write(
        self,
        schema: &SchemaRef,
        rows: impl Iterator<Item = Result<RecordBatch>>,
        mut out: impl Write + Send,
    ) -> Result<()> {
        match self {
            Self::Table => {
                let mut batches = vec![readable(&RecordBatch::new_empty(Arc::clone(schema)), for_people)?];
                for batch in rows {
                    batches.push(readable(&batch?, for_people)?);
                }
                let options = FormatOptions::default().with_null("NULL");
                writeln!(out, "{}", pretty_format_batches_with_options(&batches, &options)?).map_err(|e| output(&e))?;
            }
            Self::Json => {
                let mut writer = JsonBuilder::new().with_explicit_nulls(true).build::<_, JsonArray>(&mut out);
                for batch in rows {
                    writer.write(&batch?).map_err(|e| output(&e))?;
                }
                writer.finish().map_err(|e| output(&e))?;
                writeln!(out).map_err(|e| output(&e))?;
            }
            Self::Jsonl => {
                let mut writer = JsonBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(&mut out);
                for batch in rows {
                    writer.write(&batch?).map_err(|e| output(&e))?;
                }
                writer.finish().map_err(|e| output(&e))?;
            }
            Self::Csv => {
                let mut writer = WriterBuilder::new().with_header(true).build(&mut out);
                writer.write(&readable(&RecordBatch::new_empty(Arc::clone(schema)), whole)?).map_err(|e| output(&e))?;
                for batch in rows {
                    writer.write(&readable(&batch?, whole)?).map_err(|e| output(&e))?;
                }
            }
            Self::Parquet => {
                let mut writer = ArrowWriter::try_new(&mut out, Arc::clone(schema), None).map_err(|e| output(&e))?;
                for batch in rows {
                    writer.write(&batch?).map_err(|e| output(&e))?;
                }
                writer.close().map_err(|e| output(&e))?;
            }
        }
        out.flush().map_err(|error| output(&error))
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<String> = Self::ALL.iter().map(|(name, _)| format!("`{name}`")).collect();
            format!("no form `{name}`; there are {}", names.join(", "))
        })
    }
}

fn output(error: &dyn std::error::Error) -> Error {
    Error::stage(format!("cannot write the answer: {error}"))
}

/// How a value of a list or binary column becomes text: (column, row, formatter of the column).
type ToText = fn(&ArrayRef, usize, &ArrayFormatter<'_>) -> Result<String>;

/// The batch with its lists and binary values as text, since neither people nor CSV can take them as they are. Texts go
/// the same way, for what people must not be shown.
fn readable(batch: &RecordBatch, text: ToText) -> Result<RecordBatch> {
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

fn whole(_: &ArrayRef, row: usize, formatter: &ArrayFormatter<'_>) -> Result<String> {
    Ok(formatter.value(row).try_to_string()?)
}

/// Short, and nothing that could steer a terminal.
fn for_people(column: &ArrayRef, row: usize, formatter: &ArrayFormatter<'_>) -> Result<String> {
    shortened(column, row, formatter).map(|text| visible(&text))
}

fn shortened(column: &ArrayRef, row: usize, formatter: &ArrayFormatter<'_>) -> Result<String> {
    let values = match column.data_type() {
        DataType::FixedSizeList(..) => column.as_fixed_size_list().value(row),
        DataType::List(_) => column.as_list::<i32>().value(row),
        DataType::LargeList(_) => column.as_list::<i64>().value(row),
        DataType::Binary => return Ok(format!("{} bytes", column.as_binary::<i32>().value(row).len())),
        DataType::LargeBinary => return Ok(format!("{} bytes", column.as_binary::<i64>().value(row).len())),
        _ => return whole(column, row, formatter),
    };
    let vectors = matches!(values.data_type(), DataType::FixedSizeList(..));
    if values.len() <= SHOWN_IN_FULL && !vectors {
        return whole(column, row, formatter);
    }
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(&values, &options)?;
    let mut text = String::from("[");
    let shown = if vectors { 1 } else { SHOWN };
    for value in 0..shown.min(values.len()) {
        write!(text, "{}, ", shortened(&values, value, &formatter)?).map_err(|e| Error::internal(e.to_string()))?;
    }
    write!(text, "… {} values]", values.len()).map_err(|e| Error::internal(e.to_string()))?;
    Ok(text)
}
