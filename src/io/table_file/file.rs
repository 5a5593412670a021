//! A Parquet or Arrow file, whichever it is.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use memmap2::Mmap;

use super::arrow_file::ArrowFile;
use super::column::Kind;
use super::parquet_file::ParquetFile;
use crate::error::{Error, Mistakes, Result};
use crate::io::files;

/// A table in a file.
#[derive(Debug)]
pub struct TableFile {
    path: PathBuf,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Parquet(ParquetFile),
    Arrow(ArrowFile),
}

impl TableFile {
    /// Opens the file at `path`, whose first bytes say what it is. Cost: reads its metadata.
    ///
    /// # Errors
    /// It is no Parquet file, Arrow IPC file or Arrow IPC stream that can be read, or is cut short.
    pub fn open(path: &Path) -> Result<Self> {
        let begin = files::begin::<8>(path)?;
        let form = match &begin {
            [b'P', b'A', b'R', b'1', ..] => ParquetFile::open(map(path)?).map(Form::Parquet),
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] => ArrowFile::of_file(map(path)?).map(Form::Arrow),
            [0xff, 0xff, 0xff, 0xff, ..] => ArrowFile::of_stream(map(path)?).map(Form::Arrow),
            _ => Err(other(begin)),
        };
        match form {
            Ok(form) => Ok(Self { path: path.to_owned(), form }),
            Err(error) => Err(error.context(format!("`{}`", path.display()))),
        }
    }

    /// Where the file lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is a column of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.schema().field_with_name(name).is_ok()
    }

    /// That these columns are there and of these kinds.
    ///
    /// # Errors
    /// All that are not, with the columns that there are, and `hint`.
    pub fn expect(&self, columns: &[(&str, Kind)], hint: &str) -> Result<()> {
        let mut mistakes = Mistakes::of(&self.path);
        for &(name, kind) in columns {
            match self.schema().field_with_name(name) {
                Err(_) => mistakes.add(format_args!("column `{name}`"), "is not there"),
                Ok(field) => {
                    if let Err(message) = kind.accepts(field.data_type()) {
                        mistakes.add(format_args!("column `{name}`"), message);
                    }
                }
            }
        }
        let there = self.schema().fields().iter().map(|field| format!("`{}` ({})", field.name(), field.data_type()));
        mistakes.hint(format!("the file has {}; {hint}", there.collect::<Vec<_>>().join(", ")));
        mistakes.finish()
    }

    /// All rows, in order, of the columns `names`.
    ///
    /// Memory: a piece of some rows, whose values are at most 16 MiB or one row; with compressed pages or buffers, also one
    /// page of each column (Parquet) or one record batch (Arrow).
    ///
    /// # Errors
    /// No such column. The iterator gives an error, its last item, where the file is damaged.
    pub fn batches(&self, names: &[&str]) -> Result<impl Iterator<Item = Result<RecordBatch>>> {
        let places = names.iter().map(|name| self.schema().index_of(name)).collect::<Result<Vec<_>, _>>();
        let batches = places.map_err(Error::from).and_then(|mut places| {
            // A column may have been asked for twice.
            places.sort_unstable();
            places.dedup();
            match &self.form {
                Form::Parquet(file) => file.batches(places),
                Form::Arrow(file) => Ok(file.batches(places)),
            }
        });
        let context = move |error: Error| error.context(format!("`{}`", self.path.display()));
        let mut failed = false;
        Ok(batches.map_err(context)?.map(move |batch| batch.map_err(context)).take_while(move |batch| {
            let go_on = !failed;
            failed = batch.is_err();
            go_on
        }))
    }

    fn schema(&self) -> &SchemaRef {
        match &self.form {
            Form::Parquet(file) => file.schema(),
            Form::Arrow(file) => file.schema(),
        }
    }
}

/// The content of the file at `path`, which is read from disk where it is looked at.
fn map(path: &Path) -> Result<Bytes> {
    let file = File::open(path).map_err(|error| Error::io("open", path, &error))?;
    #[expect(unsafe_code, reason = "a memory map is sound as long as nobody changes the file, which we document")]
    let map = unsafe { Mmap::map(&file) }.map_err(|error| Error::io("map", path, &error))?;
    Ok(Bytes::from_owner(map))
}

/// The error of a file that begins as something else.
fn other(begin: [u8; 8]) -> Error {
    let (what, hint) = match begin {
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => ("is a NumPy array, where a table was wanted", None),
        [b'F', b'E', b'A', b'1', ..] => ("is a Feather file of version 1", Some("write it with `version=2`")),
        [b'P', b'K', 3, 4, ..] => (
            "is a zip archive (`.npz`, or a PyTorch file)",
            Some(
                "write each array by itself: `numpy.save(path, x)`; of a tensor `numpy.save(path, x.float().cpu().numpy())`",
            ),
        ),
        [0x80, 2..=5, ..] => (
            "looks like a pickle, which is never read, because reading a pickle runs it",
            Some("write each array by itself: `numpy.save(path, x)`"),
        ),
        _ => ("is no Parquet file and no Arrow file or stream", None),
    };
    let error = Error::data(what);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}
