//! File of records in any of the formats.

use std::path::{Path, PathBuf};

use super::{FieldValue, RecordPlace, json_lines, table_records};
use crate::delimited::DelimitedFile;
use crate::table_file::{ColumnKind, TableFile};
use pairloom_base::error::{Error, Result};
use pairloom_storage::files;

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
    /// The format follows from the extension: `.csv` or `.tsv` with a header line, `.jsonl` or `.ndjson` with one
    /// object a line, each optionally followed by `.gz`. Parquet and Arrow files are recognised by their first bytes.
    ///
    /// A CSV file may have another `separator` than a comma.
    ///
    /// # Errors
    /// The file is missing, in another format, or damaged, or a `separator` is given for another format than CSV.
    pub fn open(path: &Path, separator: Option<u8>) -> Result<Self> {
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        let (stem, gzip) = name.strip_suffix(".gz").map_or((name.as_str(), false), |stem| (stem, true));
        let extension = stem.rsplit_once('.').map_or("", |(_, extension)| extension);
        if separator.is_some() && !matches!(extension, "csv" | "tsv" | "tab") {
            let message = format!("`separator` is for CSV files, and `{}` has no `.csv` in its name", path.display());
            return Err(Error::data(message).hint("leave `separator` out"));
        }
        let format = match extension {
            "csv" | "tsv" | "tab" => RecordFormat::Delimited(Box::new(DelimitedFile::open(path, separator)?)),
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
        _ => "wanted CSV (.csv), tabs (.tsv) or JSON Lines (.jsonl), each also with .gz, or a Parquet or Arrow file",
    })
}
