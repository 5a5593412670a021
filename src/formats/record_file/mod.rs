//! Tables of records in user files, read one record after the other: CSV, TSV, JSON Lines, Parquet and Arrow.
//!
//! Errors name the line of a record, or in Parquet and Arrow files its row, and list all mistakes of the file.

use std::borrow::Cow;
use std::fmt;
use std::num::{IntErrorKind, ParseIntError};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::delimited::{DelimitedFile, DelimitedForm};
use crate::table_file::{ColumnKind, TableFile};
use pairloom_base::error::{Error, Result};
use pairloom_storage::files;
use pairloom_storage::image_names::shown_name;

mod json_lines;
mod list_cell;
mod table_records;
#[cfg(test)]
mod tests;

/// File of records with named fields.
#[derive(Debug)]
pub struct RecordFile {
    path: PathBuf,
    format: RecordFormat,
}

#[derive(Debug)]
enum RecordFormat {
    Delimited(Box<DelimitedFile>),
    JsonLines { gzip: bool },
    Table(TableFile),
}

impl RecordFile {
    /// Opens the file at `path`.
    ///
    /// The format follows from the extension: `.csv` or `.tsv`, `.jsonl` or `.ndjson` with one
    /// object a line, each optionally followed by `.gz`. Parquet and Arrow files are recognised by their first bytes.
    ///
    /// # Errors
    /// The file is missing, in another format, or damaged, or a separator is given for another format than CSV, or a header
    /// for another than CSV and TSV.
    pub fn open(path: &Path, form: DelimitedForm<'_>) -> Result<Self> {
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        let (stem, gzip) = name.strip_suffix(".gz").map_or((name.as_str(), false), |stem| (stem, true));
        let extension = stem.rsplit_once('.').map_or("", |(_, extension)| extension);
        let given = [("separator", form.separator.is_some()), ("header", form.header.is_some())];
        if let Some((setting, _)) = given.iter().find(|(_, is_given)| *is_given)
            && !matches!(extension, "csv" | "tsv" | "tab")
        {
            let message = format!("`{setting}` is for CSV files, and `{}` has no `.csv` in its name", path.display());
            return Err(Error::data(message).hint(format!("leave `{setting}` out")));
        }
        let format = match extension {
            "csv" | "tsv" | "tab" => RecordFormat::Delimited(Box::new(DelimitedFile::open(path, form)?)),
            "jsonl" | "ndjson" => {
                files::first_bytes::<1>(path)?;
                RecordFormat::JsonLines { gzip }
            }
            _ => match files::first_bytes::<8>(path)? {
                [b'P', b'A', b'R', b'1', ..]
                | [b'A', b'R', b'R', b'O', b'W', b'1', ..]
                | [0xff, 0xff, 0xff, 0xff, ..] => RecordFormat::Table(TableFile::open(path)?),
                _ => return Err(unknown_format(path, extension)),
            },
        };
        Ok(Self { path: path.to_owned(), format })
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if there is a column `name`; in JSON Lines, if an object has it. Calls `check` before each object.
    ///
    /// # Errors
    /// The file cannot be read, or an error of `check`.
    pub fn has_column(&self, name: &str, check: impl Fn() -> Result<()>) -> Result<bool> {
        match &self.format {
            RecordFormat::Delimited(file) => Ok(file.has_column(name)),
            RecordFormat::JsonLines { gzip } => json_lines::has_field(&self.path, *gzip, name, check),
            RecordFormat::Table(file) => Ok(file.has_column(name)),
        }
    }

    /// Names of the columns; in JSON Lines, of the fields of the first object.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn column_names(&self) -> Result<Vec<String>> {
        match &self.format {
            RecordFormat::Delimited(file) => Ok(file.header().to_vec()),
            RecordFormat::JsonLines { gzip } => json_lines::first_fields(&self.path, *gzip),
            RecordFormat::Table(file) => Ok(file.column_names().map(str::to_owned).collect()),
        }
    }

    /// Calls `visit` for every record, with the values of `columns`, in their order. Calls `check` before each record;
    /// its error ends the reading. Returns warnings: places in the file with doubts.
    ///
    /// # Errors
    /// Columns are missing or of another kind; the hint of the error lists the columns of the file and ends with
    /// `hint`. Records are refused by `visit` or cannot be read; the error lists all of them. Or an error of `check`.
    pub fn for_each(
        self,
        columns: &[(&str, ColumnKind)],
        hint: &str,
        check: impl Fn() -> Result<()>,
        mut visit: impl FnMut(RecordPlace, &[FieldValue<'_>]) -> Result<(), String>,
    ) -> Result<Vec<String>> {
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        match self.format {
            RecordFormat::Delimited(file) => {
                let places = file.column_places(&names, hint)?;
                file.for_each(check, |line, fields| {
                    let values: Vec<_> = places.iter().map(|&place| FieldValue::Text(fields[place])).collect();
                    visit(RecordPlace::Line(line), &values)
                })
            }
            RecordFormat::JsonLines { gzip } => {
                json_lines::for_each(&self.path, gzip, &names, hint, check, visit)?;
                Ok(vec![])
            }
            RecordFormat::Table(file) => {
                table_records::for_each(&file, columns, hint, check, visit)?;
                Ok(vec![])
            }
        }
    }
}

fn unknown_format(path: &Path, extension: &str) -> Error {
    let error = Error::data(format!("`{}` is in no known format of tables", path.display()));
    error.hint(match extension {
        "json" => "write one JSON object a line, and name the file `.jsonl`",
        "xlsx" | "xls" | "ods" => "save the sheet as CSV in UTF-8",
        _ => "expected CSV (.csv), tabs (.tsv) or JSON Lines (.jsonl), each also with .gz, or a Parquet or Arrow file",
    })
}

/// Bytes that a text of a list takes beside its letters.
const ITEM_BYTES: u64 = 32;

/// Value of a field of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue<'r> {
    /// Null, or a field that a JSON object lacks.
    Missing,
    /// Text.
    Text(&'r str),
    /// Whole number.
    Integer(i64),
    /// List of texts; `None` for a null.
    Texts(Vec<Option<&'r str>>),
    /// Value of another type, with its description.
    Other(String),
}

impl<'r> FieldValue<'r> {
    /// Value of a JSON value.
    fn of_json(value: Option<&'r Value>) -> Self {
        match value {
            None | Some(Value::Null) => Self::Missing,
            Some(Value::String(text)) => Self::Text(text),
            Some(Value::Array(items)) if items.iter().all(|item| item.is_string() || item.is_null()) => {
                Self::Texts(items.iter().map(Value::as_str).collect())
            }
            Some(Value::Array(_)) => Self::Other("is a list with values that are no texts".to_owned()),
            Some(value) => match value.as_i64() {
                Some(number) => Self::Integer(number),
                None if value.is_object() => Self::Other("is an object".to_owned()),
                None if value.is_u64() => Self::Other(format!("is {value}, which is above {}", i64::MAX)),
                None => Self::Other(format!("is {value}")),
            },
        }
    }

    /// Number of bytes that its texts take in memory, about.
    fn text_bytes(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Texts(texts) => texts.iter().map(|text| ITEM_BYTES + text.map_or(0, str::len) as u64).sum(),
            Self::Missing | Self::Integer(_) | Self::Other(_) => 0,
        }
    }

    /// Text as it stands in the file, or a whole number as text.
    ///
    /// # Errors
    /// Message that follows the name of the field: it is missing, empty or white space, or of another type.
    pub fn name(&self) -> Result<Cow<'r, str>, String> {
        match self {
            Self::Text(text) if text.trim().is_empty() => Err("is empty".to_owned()),
            Self::Text(text) => Ok(Cow::Borrowed(text)),
            Self::Integer(number) => Ok(Cow::Owned(number.to_string())),
            Self::Missing => Err("is missing".to_owned()),
            Self::Texts(_) => Err("is a list, expected a text or a whole number".to_owned()),
            Self::Other(description) => Err(format!("{description}, expected a text or a whole number")),
        }
    }

    /// Whole number, or a text that is one beside white space.
    ///
    /// # Errors
    /// Message that follows the name of the field: it is no whole number.
    pub fn integer(&self) -> Result<i64, String> {
        let text = self.name().map_err(|problem| match self {
            Self::Texts(_) => "is a list, expected a whole number".to_owned(),
            Self::Other(description) => format!("{description}, expected a whole number"),
            _ => format!("{problem}, expected a whole number"),
        })?;
        let text = text.trim();
        text.parse().map_err(|error: ParseIntError| match error.kind() {
            IntErrorKind::PosOverflow => format!("is `{}`, expected at most {}", shown_name(text), i64::MAX),
            _ => format!("is `{}`, expected a whole number", shown_name(text)),
        })
    }

    /// Texts: one, or those of a list, which may also be written in a text, as JSON or as Python writes a list of texts. `None`
    /// for a null.
    ///
    /// # Errors
    /// Message that follows the name of the field: it is neither text nor list, or a text that begins as a list and is none.
    pub fn texts(&self) -> Result<Vec<Option<Cow<'r, str>>>, String> {
        match self {
            Self::Text(text) => Ok(match list_cell::parse(text)? {
                Some(items) => items.into_iter().map(|item| item.map(Cow::Owned)).collect(),
                None => vec![Some(Cow::Borrowed(*text))],
            }),
            Self::Texts(texts) => Ok(texts.iter().map(|text| text.map(Cow::Borrowed)).collect()),
            Self::Missing => Ok(vec![None]),
            Self::Integer(number) => Err(format!("is {number}, expected a text or a list of texts")),
            Self::Other(description) => Err(format!("{description}, expected a text or a list of texts")),
        }
    }
}

/// Place of a record in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordPlace {
    /// Line of a text file, from 1.
    Line(u64),
    /// Row of a Parquet or Arrow file, from 0.
    Row(u64),
}

impl fmt::Display for RecordPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Row(row) => write!(f, "row {row} (from 0)"),
        }
    }
}
