//! Output formats of query results.

use std::io::Write;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, Int64Array, RecordBatch, StringArray, make_array};
use arrow::compute::{cast, max, min};
use arrow::csv::WriterBuilder;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::writer::{JsonArray, LineDelimited, WriterBuilder as JsonBuilder};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::ArrowWriter;

use self::text_table::{VerticalWriter, full_text, write_table};
use crate::column_names::repeated_name;
use pairloom_base::error::{Error, Result};
use pairloom_tables as tables;

pub use text_table::{FittedForm, write_fitted, write_wrapped};

mod text_table;
#[cfg(test)]
mod tests;

/// Output format of a query result. Floats are rounded in [`OutputFormat::Table`] and [`OutputFormat::Vertical`] only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputFormat {
    /// Text table. Floats are rounded, long lists and binary values are shortened.
    #[default]
    Table,
    /// A line for each value, for wide rows. Values as in a table.
    Vertical,
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
    pub const ALL: [(&'static str, Self); 6] = [
        ("table", Self::Table),
        ("vertical", Self::Vertical),
        ("json", Self::Json),
        ("jsonl", Self::Jsonl),
        ("csv", Self::Csv),
        ("parquet", Self::Parquet),
    ];

    /// Writes a query result. [`OutputFormat::Table`] holds all rows in memory, other formats one batch at a time.
    ///
    /// # Errors
    /// A batch of `rows` is an error, or `out` cannot be written. Two columns have the same name, which JSON and Parquet
    /// cannot keep apart. A map has other keys than texts, which JSON has not. A date or time is outside of the calendar.
    pub fn write(
        self,
        schema: &SchemaRef,
        rows: impl Iterator<Item = Result<RecordBatch>>,
        mut out: impl Write + Send,
    ) -> Result<()> {
        if matches!(self, Self::Json | Self::Jsonl | Self::Parquet) {
            check_names(schema)?;
        }
        if matches!(self, Self::Json | Self::Jsonl) {
            check_map_keys(schema)?;
        }
        if self != Self::Parquet {
            check_temporal_values(&RecordBatch::new_empty(Arc::clone(schema)))?;
        }
        let mut rows = rows.map(|batch| {
            let batch = batch?;
            if self != Self::Parquet {
                check_temporal_values(&batch)?;
            }
            Ok(batch)
        });
        // A query that fails at once writes nothing, a header neither.
        let first = rows.next().transpose()?;
        let rows = first.map(Ok).into_iter().chain(rows);
        match self {
            Self::Table => write_table(schema, rows, &mut out)?,
            Self::Vertical => {
                let mut writer = VerticalWriter::new(schema);
                for batch in rows {
                    writer.write(&batch?, &mut out)?;
                }
                writer.finish(&mut out)?;
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
                let header = full_text_columns(&RecordBatch::new_empty(Arc::clone(schema)))?;
                writer.write(&header).map_err(|e| write_error(&e))?;
                for batch in rows {
                    writer.write(&full_text_columns(&batch?)?).map_err(|e| write_error(&e))?;
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

/// Refuses a result in which two columns have the same name.
fn check_names(schema: &SchemaRef) -> Result<()> {
    repeated_name(schema.fields().iter().map(|field| field.name().as_str())).map_or(Ok(()), |name| {
        let error = Error::usage(format!("two columns of the result are named `{name}`"));
        Err(error.hint("name them with `AS`, or choose the format table, vertical or csv"))
    })
}

/// Refuses a map whose keys are no texts.
fn check_map_keys(schema: &SchemaRef) -> Result<()> {
    let other = schema.fields().iter().find_map(|field| Some((field, other_keys(field.data_type())?)));
    other.map_or(Ok(()), |(field, kind)| {
        let message =
            format!("the column `{}` has a map with keys of the type {kind}; those of JSON are texts", field.name());
        Err(Error::usage(message).hint("choose the format table, vertical, csv or parquet"))
    })
}

/// Type of the keys of a map in a type, if they are no texts.
fn other_keys(kind: &DataType) -> Option<&DataType> {
    match kind {
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                let key = fields.first().map(|key| key.data_type()).filter(|key| !key.is_string());
                key.or_else(|| fields.iter().find_map(|field| other_keys(field.data_type())))
            }
            kind => Some(kind),
        },
        DataType::Struct(fields) => fields.iter().find_map(|field| other_keys(field.data_type())),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _) => other_keys(field.data_type()),
        _ => None,
    }
}

/// Refuses dates and times that no calendar has, and unknown time zones: the writers would put a message in their place.
fn check_temporal_values(batch: &RecordBatch) -> Result<()> {
    batch.schema().fields().iter().zip(batch.columns()).try_for_each(|(field, column)| {
        check_temporal_column(column).map_err(|error| {
            Error::data(format!("the values of the column `{}` cannot be shown: {error}", field.name()))
                .hint("`arrow_cast` to `Int64` shows the number")
        })
    })
}

/// Checks the dates and times of a column, or of the values in its lists, structs, maps and dictionaries.
fn check_temporal_column(column: &dyn Array) -> Result<(), ArrowError> {
    let kind = column.data_type();
    if kind.is_nested() || matches!(kind, DataType::Dictionary(..)) {
        let parts = column.to_data();
        return parts.child_data().iter().try_for_each(|child| check_temporal_column(&make_array(child.clone())));
    }
    if !matches!(
        kind,
        DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) | DataType::Timestamp(..)
    ) {
        return Ok(());
    }
    // The first and the last one are in the calendar, or one of them is not.
    let is_short = matches!(kind, DataType::Date32 | DataType::Time32(_));
    let numbers = if is_short {
        cast(&cast(column, &DataType::Int32)?, &DataType::Int64)?
    } else {
        cast(column, &DataType::Int64)?
    };
    let numbers = numbers.as_primitive::<Int64Type>();
    let ends: ArrayRef = Arc::new(Int64Array::from_iter_values(min(numbers).into_iter().chain(max(numbers))));
    let ends = if is_short { cast(&cast(&ends, &DataType::Int32)?, kind)? } else { cast(&ends, kind)? };
    let options = FormatOptions::default().with_display_error(false);
    let shown = ArrayFormatter::try_new(&ends, &options)?;
    (0..ends.len()).try_for_each(|end| shown.value(end).try_to_string().map(drop))
}

/// Replaces list, binary and text columns by columns of formatted text, which CSV can hold.
fn full_text_columns(batch: &RecordBatch) -> Result<RecordBatch> {
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
            .map(|row| if column.is_null(row) { Ok(None) } else { full_text(&formatter, row).map(Some) });
        fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, true)));
        columns.push(Arc::new(texts.collect::<Result<StringArray>>()?) as ArrayRef);
    }
    if columns.is_empty() {
        return Ok(batch.clone());
    }
    tables::batch(&Arc::new(Schema::new(fields)), columns)
}
