//! Tables in user files (Parquet files, Arrow files, Arrow streams) with arbitrary columns, read in batches of bounded
//! size.
//!
//! The libraries of these formats are safe, and trust what a file claims. So a process with limits of memory and time reads
//! a file (`process.rs`, `reader.rs`), and hands over an Arrow stream.

use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use self::column::no_column;
use self::process::TableStream;
use pairloom_base::error::{Result, ValidationErrors, escape_line};

pub use column::{
    ColumnKind, MAX_WIDTH, NullablePictures, NullableTextLists, NullableTexts, NullableVectors, has_integers, integers,
    pictures, text_lists, texts, vectors,
};
pub use process::{READ_TABLE, answer, set_program};

mod reader;
mod process;
pub mod column;
#[cfg(test)]
mod tests;

/// Most columns of a file that a hint names, and most letters of their names and types.
const NAMED_COLUMNS: usize = 50;
const NAMED_LETTERS: usize = 100;

/// Table in a Parquet file, an Arrow file or an Arrow stream.
#[derive(Debug)]
pub struct TableFile {
    path: PathBuf,
    schema: SchemaRef,
}

impl TableFile {
    /// Opens the file at `path`. The format is detected from its first bytes. Cost: reads the metadata.
    ///
    /// # Errors
    /// The file cannot be read, is truncated, or is not a Parquet file, an Arrow IPC file or an Arrow IPC stream.
    pub fn open(path: &Path) -> Result<Self> {
        let schema = TableStream::open(path, &[])?.schema();
        Ok(Self { path: path.to_owned(), schema })
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of the columns.
    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        self.schema.fields().iter().map(|field| field.name().as_str())
    }

    /// Returns true if there is a column `name`.
    #[must_use]
    pub fn has_column(&self, name: &str) -> bool {
        self.schema.field_with_name(name).is_ok()
    }

    /// Returns true if there is a column `name` of texts.
    #[must_use]
    pub fn has_texts(&self, name: &str) -> bool {
        self.schema.field_with_name(name).is_ok_and(|field| ColumnKind::Texts.accepts(field.data_type()).is_ok())
    }

    /// Checks that these columns exist and are of these kinds.
    ///
    /// # Errors
    /// Columns are missing or of another kind. The error lists all of them. Its hint lists the columns of the file, and
    /// ends with `hint`.
    pub fn check_columns(&self, columns: &[(&str, ColumnKind)], hint: &str) -> Result<()> {
        let mut mistakes = ValidationErrors::in_file(&self.path);
        for &(name, kind) in columns {
            match self.schema.field_with_name(name) {
                Err(_) => mistakes.add(format_args!("column `{name}`"), "is not there"),
                Ok(_) if self.schema.fields().iter().filter(|field| field.name() == name).count() > 1 => {
                    mistakes.add(format_args!("column `{name}`"), "is there several times: rename all but one");
                }
                Ok(field) => {
                    if let Err(message) = kind.accepts(field.data_type()) {
                        mistakes.add(format_args!("column `{name}`"), message);
                    }
                }
            }
        }
        let fields = self.schema.fields();
        let there = fields.iter().take(NAMED_COLUMNS).map(|field| {
            let start = |text: &str| text.chars().take(NAMED_LETTERS).collect::<String>();
            format!("`{}` ({})", escape_line(&start(field.name())), start(&field.data_type().to_string()))
        });
        let rest = match fields.len().saturating_sub(NAMED_COLUMNS) {
            0 => String::new(),
            rest => format!(" and {rest} more"),
        };
        mistakes.hint(format!("the file has {}{rest}; {hint}", there.collect::<Vec<_>>().join(", ")));
        mistakes.into_result()
    }

    /// Reads all rows of the columns `names`, in order. Calls `check` for each batch; its error ends the reading.
    ///
    /// Memory: one batch of at most 8,192 rows and some 32 MiB, or one larger row.
    ///
    /// # Errors
    /// A column is missing. If the file is cut short or damaged, or takes too much memory or time, the iterator ends with an
    /// error.
    pub fn batches<F: Fn() -> Result<()>>(
        &self,
        names: &[&str],
        check: F,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<F>> {
        let fields = self.schema.fields();
        let place = |name: &&str| fields.find(name).map(|(place, _)| place).ok_or_else(|| no_column(name));
        let places = names.iter().map(place).collect::<Result<Vec<_>>>();
        let mut places = places.map_err(|error| error.context(format!("`{}`", self.path.display())))?;
        // Names may repeat.
        places.sort_unstable();
        places.dedup();
        let mut failed = false;
        let batches = TableStream::open(&self.path, &places)?.map(move |batch| check().and(batch));
        Ok(batches.take_while(move |batch| !std::mem::replace(&mut failed, batch.is_err())))
    }

    /// Reads all rows, and forgets them.
    ///
    /// # Errors
    /// As for the iterator of [`Self::batches`].
    pub fn check_rows(&self) -> Result<()> {
        let places: Vec<usize> = (0..self.schema.fields().len()).collect();
        TableStream::open(&self.path, &places)?.try_for_each(|batch| batch.map(drop))
    }
}
