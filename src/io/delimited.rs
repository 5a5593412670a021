//! CSV and TSV files with a header line, optionally compressed with gzip.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use csv::{ByteRecord, Reader, ReaderBuilder};

use super::bounded::{self, MAX_LIST_BYTES};
use crate::error::{Error, Result, ValidationErrors};

/// CSV or TSV file that is read row by row.
pub struct DelimitedFile {
    path: PathBuf,
    header: Vec<String>,
    tabs: bool,
    reader: Reader<Box<dyn Read + Send>>,
}

impl std::fmt::Debug for DelimitedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delimited").field("path", &self.path).field("header", &self.header).finish_non_exhaustive()
    }
}

impl DelimitedFile {
    /// Opens the file at `path`.
    ///
    /// The format follows from the extension: `.csv` (commas; fields may be quoted) or `.tsv` (tabs; quotes are text,
    /// since captions contain them), each optionally followed by `.gz`.
    ///
    /// # Errors
    /// The extension is another one, the file is missing, or it has no header.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        let (stem, gzip) = name.strip_suffix(".gz").map_or((name.as_str(), false), |stem| (stem, true));
        let tabs = match stem.rsplit_once('.') {
            Some((_, "tsv" | "tab")) => true,
            Some((_, "csv")) => false,
            _ => {
                let message = format!("`{}` has no known extension", path.display());
                return Err(Error::data(message).hint("wanted a name that ends with .csv, .tsv, .csv.gz or .tsv.gz"));
            }
        };
        let content = bounded::open_text(path, gzip)?;
        let mut builder = ReaderBuilder::new();
        builder.delimiter(if tabs { b'\t' } else { b',' }).quoting(!tabs).flexible(true);
        let mut this = Self { path: path.to_owned(), header: vec![], tabs, reader: builder.from_reader(content) };
        let header = this.reader.byte_headers().map_err(|error| csv_error(path, &error))?.clone();
        let name = |field: &[u8]| String::from_utf8_lossy(field).trim_start_matches('\u{feff}').trim().to_owned();
        this.header = header.iter().map(name).collect();
        if this.header.iter().all(String::is_empty) {
            return Err(Error::data(format!(
                "`{}` has no header, wanted a first line of column names",
                path.display()
            )));
        }
        Ok(this)
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Indices of the columns `names`, which may repeat.
    ///
    /// # Errors
    /// Columns are missing or duplicated. The error lists all of them.
    pub fn columns<const N: usize>(&self, names: [&str; N]) -> Result<[usize; N]> {
        let places = self.column_places(&names, "")?;
        Ok(std::array::from_fn(|i| places[i]))
    }

    /// Indices of any number of columns, as [`Self::columns`]. The hint of the error ends with `hint`.
    ///
    /// # Errors
    /// As [`Self::columns`].
    pub fn column_places(&self, names: &[&str], hint: &str) -> Result<Vec<usize>> {
        let mut mistakes = ValidationErrors::in_file(&self.path);
        let mut reported = BTreeSet::new();
        let places = names.iter().map(|&name| {
            let mut at = self.header.iter().enumerate().filter(|(_, header)| *header == name).map(|(i, _)| i);
            let first = at.next();
            if first.is_none() && reported.insert(name) {
                mistakes.add("header", format_args!("no column `{name}`"));
            } else if at.next().is_some() && reported.insert(name) {
                mistakes.add("header", format_args!("column `{name}` is there twice"));
            }
            first.unwrap_or(0)
        });
        let places = places.collect();
        let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
        mistakes.hint(format!("its columns are `{}`{hint}", self.header.join("`, `")));
        mistakes.into_result()?;
        Ok(places)
    }

    /// Calls `row` for every row, with its line number and its fields, one for each column of the header.
    ///
    /// # Errors
    /// Rows are refused by `row`, have a wrong number of fields, or are not UTF-8: the error lists all of them. Or the
    /// file cannot be read, or has more than 4 GiB of text.
    pub fn for_each(mut self, mut row: impl FnMut(u64, &[&str]) -> Result<(), String>) -> Result<()> {
        let mut mistakes = ValidationErrors::in_file(&self.path);
        let mut record = ByteRecord::new();
        let mut bytes = 0u64;
        while self.reader.read_byte_record(&mut record).map_err(|error| csv_error(&self.path, &error))? {
            bytes = self.reader.position().byte();
            let line = record.position().map_or(0, csv::Position::line);
            let place = format_args!("line {line}").to_string();
            if record.len() != self.header.len() {
                mistakes.add(place, format_args!("{} fields, wanted {}", record.len(), self.header.len()));
                if !self.tabs && record.len() > self.header.len() {
                    mistakes.hint("a field with a comma needs double quotes: `\"a, b\"`");
                }
                continue;
            }
            let fields: Result<Vec<&str>, _> = record.iter().map(std::str::from_utf8).collect();
            match fields {
                Err(_) => mistakes.add(place, "bytes that are not UTF-8"),
                Ok(fields) => {
                    if let Err(problem) = row(line, &fields) {
                        mistakes.add(place, problem);
                    }
                }
            }
        }
        if bytes >= MAX_LIST_BYTES {
            return Err(Error::data(format!("`{}` has more than {MAX_LIST_BYTES} bytes of text", self.path.display())));
        }
        mistakes.into_result()
    }
}

fn csv_error(path: &Path, error: &csv::Error) -> Error {
    match error.kind() {
        // The error of the gzip decoder for a file that is not gzip.
        csv::ErrorKind::Io(error) if error.kind() == ErrorKind::InvalidInput => {
            Error::data(format!("cannot read `{}`: {error}", path.display()))
        }
        csv::ErrorKind::Io(error) => Error::io("read", path, error),
        _ => Error::data(format!("`{}`: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::error::ErrorCategory;

    fn read(name: &str, content: &[u8]) -> Result<Vec<(u64, Vec<String>)>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let mut rows = Vec::new();
        DelimitedFile::open(&path)?.for_each(|line, fields| {
            rows.push((line, fields.iter().map(|&field| field.to_owned()).collect()));
            if fields[0] == "bad" { Err("is bad".to_owned()) } else { Ok(()) }
        })?;
        Ok(rows)
    }

    fn row(line: u64, fields: [&str; 2]) -> (u64, Vec<String>) {
        (line, fields.map(str::to_owned).to_vec())
    }

    #[test]
    fn csv_has_quoted_fields_and_tsv_has_not() {
        let commas = "\u{feff}a,b\n1,\"x, \"\"y\"\"\nz\"\n2,\r\n".as_bytes();
        assert_eq!(read("a.csv", commas).unwrap(), [row(2, ["1", "x, \"y\"\nz"]), row(4, ["2", ""])]);
        let tabs = b"a\tb\n\"1\tshe said \"no\"\n";
        assert_eq!(read("a.tsv", tabs).unwrap(), [row(2, ["\"1", "she said \"no\""])]);
    }

    #[test]
    fn gzip_is_decompressed_and_damage_is_an_error() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(b"a\tb\n1\t2\n").unwrap();
        let packed = packed.finish().unwrap();
        assert_eq!(read("a.tsv.gz", &packed).unwrap(), [row(2, ["1", "2"])]);
        assert!(read("a.tsv.gz", &packed[..packed.len() - 9]).is_err());
        let error = read("a.tsv.gz", b"a long enough table\tb\n").unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Data, "{error}");
    }

    #[test]
    fn all_mistakes_are_reported_with_their_lines() {
        let message = read("a.tsv", b"a\tb\nbad\t1\n2\nok\t3\nx\t\xff\n").unwrap_err().to_string();
        for part in ["3 mistakes", "line 2: is bad", "line 3: 1 fields, wanted 2", "line 5: bytes that are not UTF-8"] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(read("a.txt", b"a\n").unwrap_err().hint_text().unwrap().contains(".csv"));
        assert!(read("a.csv", b"").unwrap_err().to_string().contains("no header"));
    }

    #[test]
    fn columns_are_found_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, "a,b,a\n").unwrap();
        let table = DelimitedFile::open(&path).unwrap();
        assert_eq!(table.columns(["b"]).unwrap(), [1]);
        let error = table.columns(["a", "c"]).unwrap_err();
        assert!(error.to_string().contains("`c`") && error.to_string().contains("`a` is there twice"), "{error}");
        assert!(error.hint_text().unwrap().contains("`a`, `b`"));
        let error = DelimitedFile::open(&path).unwrap().columns(["a", "c", "a", "c"]).unwrap_err().to_string();
        assert!(error.contains("has 2 mistakes"), "{error}");
    }
}
