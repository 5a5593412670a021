//! Tables in user files (Parquet files, Arrow files, Arrow streams) with arbitrary columns, read in batches of bounded
//! size.
//!
//! Metadata is validated against the file: damaged and forged files are errors, and so are files that are cut while they
//! are read.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use self::arrow_file::ArrowFile;
use self::column::{DictionaryTexts, no_column};
use self::parquet_file::ParquetFile;
use pairloom_base::error::{Error, ErrorCategory, Result, ValidationErrors, escape_line};
use pairloom_storage::files;
use pairloom_storage::pread::PreadFile;

pub use batches::MAX_WIDTH;
pub use column::{
    ColumnKind, NullablePictures, NullableTextLists, NullableTexts, NullableVectors, has_integers, integers, pictures,
    text_lists, texts, vectors,
};

mod batches;
mod arrow_file;
mod parquet_file;
pub mod column;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod hostile_arrow_tests;

/// Most columns of a file that a hint names, and most letters of their names and types.
const NAMED_COLUMNS: usize = 50;
const NAMED_LETTERS: usize = 100;

/// Table in a Parquet file, an Arrow file or an Arrow stream.
#[derive(Debug)]
pub struct TableFile {
    path: PathBuf,
    file: FileFormat,
}

#[derive(Debug)]
enum FileFormat {
    Parquet(ParquetFile),
    Arrow(ArrowFile),
}

impl TableFile {
    /// Opens the file at `path`. The format is detected from its first bytes. Cost: reads the metadata.
    ///
    /// # Errors
    /// The file cannot be read, is truncated, or is not a Parquet file, an Arrow IPC file or an Arrow IPC stream.
    pub fn open(path: &Path) -> Result<Self> {
        let begin = files::first_bytes::<8>(path)?;
        let opened = match &begin {
            [b'P', b'A', b'R', b'1', ..] => ParquetFile::open(PreadFile::open(path)?).map(FileFormat::Parquet),
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] => {
                ArrowFile::of_file(PreadFile::open(path)?).map(FileFormat::Arrow)
            }
            [0xff, 0xff, 0xff, 0xff, ..] => ArrowFile::of_stream(PreadFile::open(path)?).map(FileFormat::Arrow),
            _ => Err(format_error(begin)),
        };
        match opened {
            Ok(file) => Ok(Self { path: path.to_owned(), file }),
            Err(error) => Err(error.context(format!("`{}`", path.display()))),
        }
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if there is a column `name`.
    #[must_use]
    pub fn has_column(&self, name: &str) -> bool {
        self.schema().field_with_name(name).is_ok()
    }

    /// Returns true if there is a column `name` of texts.
    #[must_use]
    pub fn has_texts(&self, name: &str) -> bool {
        self.schema().field_with_name(name).is_ok_and(|field| ColumnKind::Texts.accepts(field.data_type()).is_ok())
    }

    /// Checks that these columns exist and are of these kinds.
    ///
    /// # Errors
    /// Columns are missing or of another kind. The error lists all of them. Its hint lists the columns of the file, and
    /// ends with `hint`.
    pub fn check_columns(&self, columns: &[(&str, ColumnKind)], hint: &str) -> Result<()> {
        let mut mistakes = ValidationErrors::in_file(&self.path);
        for &(name, kind) in columns {
            match self.schema().field_with_name(name) {
                Err(_) => mistakes.add(format_args!("column `{name}`"), "is not there"),
                Ok(_) if self.schema().fields().iter().filter(|field| field.name() == name).count() > 1 => {
                    mistakes.add(format_args!("column `{name}`"), "is there several times: rename all but one");
                }
                Ok(field) => {
                    if let Err(message) = kind.accepts(field.data_type()) {
                        mistakes.add(format_args!("column `{name}`"), message);
                    }
                }
            }
        }
        let fields = self.schema().fields();
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

    /// Reads all rows of the columns `names`, in order. Calls `check` for each batch, and before each page (Parquet) or record batch (Arrow);
    /// its error ends the reading.
    ///
    /// Memory: one batch, of which each column has at most 16 MiB of numbers and 256 MiB of texts, or one larger row. Of a Parquet file with
    /// compression also one page of each column, of an Arrow file one record batch, which may have 2 GiB.
    ///
    /// # Errors
    /// A column is missing. If the file is damaged or made to fill the memory, the iterator ends with an error.
    pub fn batches<'f, F: Fn() -> Result<()> + 'f>(
        &'f self,
        names: &[&str],
        check: F,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<'f, F>> {
        let check = Rc::new(check);
        let fields = self.schema().fields();
        let place = |name: &&str| fields.find(name).map(|(place, _)| place).ok_or_else(|| no_column(name));
        let batches = names.iter().map(place).collect::<Result<Vec<_>>>().map(|mut places| {
            // Names may repeat.
            places.sort_unstable();
            places.dedup();
            let check = Rc::clone(&check);
            match &self.file {
                FileFormat::Parquet(file) => file.batches(places, Box::new(move || check())),
                FileFormat::Arrow(file) => file.batches(places, Box::new(move || check())),
            }
        });
        let context = move |error: Error| match error.category() {
            ErrorCategory::Interrupted => error,
            _ => error
                .context(format!("`{}`", self.path.display()))
                .hint("the file is damaged: copy it or create it again"),
        };
        let mut failed = false;
        let mut dictionaries = DictionaryTexts::default();
        let batches = batches.map_err(context)?.map(move |batch| {
            check()?;
            dictionaries.convert(batch?)
        });
        Ok(batches.map(move |batch| batch.map_err(context)).take_while(move |batch| {
            let go_on = !failed;
            failed = batch.is_err();
            go_on
        }))
    }

    fn schema(&self) -> &SchemaRef {
        match &self.file {
            FileFormat::Parquet(file) => file.schema(),
            FileFormat::Arrow(file) => file.schema(),
        }
    }
}

/// Error for a file of another format, by its first bytes.
fn format_error(begin: [u8; 8]) -> Error {
    let (what, hint) = match begin {
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => ("is a NumPy array, wanted a table", None),
        [b'F', b'E', b'A', b'1', ..] => ("is a Feather file of version 1", Some("write it with `version=2`")),
        [b'P', b'K', 3, 4, ..] => (
            "is a zip archive (`.npz`, or a PyTorch file)",
            Some(
                "save each array to its own file: `numpy.save(path, x)`, a tensor as \
                 `numpy.save(path, x.cpu().numpy())`",
            ),
        ),
        [0x80, 2..=5, ..] => (
            "looks like a pickle, which is never read, because reading a pickle executes code",
            Some("save each array to its own file: `numpy.save(path, x)`"),
        ),
        [b'v', b'e', b'r', b's', b'i', b'o', b'n', b' '] => {
            ("is a pointer of Git LFS, wanted its file", Some("fetch it: `git lfs pull`"))
        }
        [0x1f, 0x8b, ..] => ("is compressed with gzip", Some("decompress it with `gunzip`")),
        [0x89, b'H', b'D', b'F', ..] => {
            ("is an HDF5 file", Some("save each array to its own file: `numpy.save(path, file[name][:])`"))
        }
        [0, 0, 0, 0, 0, 0, 0, 0] => ("is not a Parquet file: it is empty, or starts with zeros", None),
        _ => ("is not a Parquet file, an Arrow file or an Arrow stream", None),
    };
    let error = Error::data(what);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}
