//! CSV and TSV files, optionally compressed with gzip. Their first line has the names of the columns, unless these are given.
//!
//! The fields are those of the parser of the crate `csv`, and so, for files without mistakes, those of Python's `csv`.
//! The parser gets one line at a time. If a record is not complete at the end of a line, a quote is open there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use crate::text_lines::{LineBreak, LineReader, MAX_LINE_BYTES, NOT_UTF8_HINT};
use pairloom_base::error::{Error, Result, Severity, TruncatedList, ValidationErrors};
use pairloom_storage::image_names::{is_image_url, shown_name};

mod quotes;
#[cfg(test)]
mod tests;

/// Separators that people use, with their names.
const SEPARATORS: [(u8, &str, &str); 4] =
    [(b',', "commas", ","), (b';', "semicolons", ";"), (b'\t', "tabs", "\\t"), (b'|', "vertical bars", "|")];

/// Maximum number of quoted fields that warnings name.
const WARNINGS: usize = 20;

/// Form of a CSV or TSV file, as far as its name does not say it.
#[derive(Debug, Clone, Copy, Default)]
pub struct DelimitedForm<'s> {
    /// Separator of the columns of a CSV file, by default a comma.
    pub separator: Option<u8>,
    /// Names of the columns of a file whose first line is a row.
    pub header: Option<&'s [String]>,
}

/// CSV or TSV file that is read row by row.
#[derive(Debug)]
pub struct DelimitedFile {
    path: PathBuf,
    header: Vec<String>,
    /// True if the first line has the names of the columns.
    has_header_line: bool,
    separator: u8,
    /// True if the name of the file says tabs.
    is_tsv: bool,
    records: RecordReader,
}

impl DelimitedFile {
    /// Opens the file at `path`.
    ///
    /// The format follows from the extension: `.csv` (fields may be quoted) or `.tsv` (tabs; quotes are text, since captions
    /// contain them), each optionally followed by `.gz`.
    ///
    /// # Errors
    /// The extension is another one, the file is missing, no UTF-8 text, or it has no header, or there is a separator
    /// for TSV.
    pub fn open(path: &Path, DelimitedForm { separator, header }: DelimitedForm<'_>) -> Result<Self> {
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        let (stem, gzip) = name.strip_suffix(".gz").map_or((name.as_str(), false), |stem| (stem, true));
        let is_tsv = match stem.rsplit_once('.') {
            Some((_, "tsv" | "tab")) => true,
            Some((_, "csv")) => false,
            _ => {
                let message = format!("`{}` has no known extension", path.display());
                return Err(Error::data(message).hint("expected a name that ends with .csv, .tsv, .csv.gz or .tsv.gz"));
            }
        };
        if is_tsv && separator.is_some() {
            let message = format!("`separator` is for CSV files, and the name of `{}` says tabs", path.display());
            return Err(Error::data(message).hint("leave `separator` out, or name the file `.csv`"));
        }
        let separator = separator.unwrap_or(if is_tsv { b'\t' } else { b',' });
        let lines = LineReader::open(path, gzip, LineBreak::CarriageReturn)?;
        let mut this = Self {
            path: path.to_owned(),
            header: header.unwrap_or_default().to_vec(),
            has_header_line: header.is_none(),
            separator,
            is_tsv,
            records: RecordReader::new(lines, separator, !is_tsv),
        };
        if this.has_header_line {
            this.read_header()?;
        }
        Ok(this)
    }

    fn read_header(&mut self) -> Result<()> {
        if let Some(header) = self.records.next_record(|| Ok(()))? {
            // Only a quote that swallows everything can be told without the number of columns.
            if !self.is_tsv
                && let Some(mistake) = quotes::quote_mistake(header, self.separator, 0)
            {
                let message = format!("`{}` line {}: {}", self.path.display(), mistake.line, mistake.message);
                return Err(Error::data(message).hint(mistake.hint));
            }
            self.header = header.fields().map(|field| String::from_utf8_lossy(field).trim().to_owned()).collect();
        }
        if self.header.iter().all(String::is_empty) {
            let message = format!("`{}` has no header, expected a first line of column names", self.path.display());
            return Err(Error::data(message));
        }
        Ok(())
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of the columns, in order.
    #[must_use]
    pub fn header(&self) -> &[String] {
        &self.header
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
    /// As [`Self::columns`]. If there is a hint, and the first line looks like a row, it says how to name the columns.
    pub fn column_places(&self, names: &[&str], hint: &str) -> Result<Vec<usize>> {
        let mut mistakes = ValidationErrors::in_file(&self.path);
        let mut reported = BTreeSet::new();
        let mut is_missing = false;
        let places = names.iter().map(|&name| {
            let mut at = self.header.iter().enumerate().filter(|(_, header)| *header == name).map(|(i, _)| i);
            let first = at.next();
            if first.is_none() && reported.insert(name) {
                mistakes.add("header", format_args!("no column `{name}`"));
                is_missing = true;
            } else if at.next().is_some() && reported.insert(name) {
                mistakes.add("header", format_args!("column `{name}` is there twice"));
            }
            first.unwrap_or(0)
        });
        let places = places.collect();
        if is_missing && let Some(error) = self.other_separator() {
            return Err(error);
        }
        if is_missing
            && !hint.is_empty()
            && self.has_header_line
            && let Some(field) = self.header.iter().find(|name| is_value(name))
        {
            let (path, names) =
                (self.path.display(), names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>());
            let message = format!("`{path}` line 1: expected names of columns, got a row: `{}`", shortened(field));
            let count = self.header.len();
            return Err(Error::data(message)
                .hint(format!("name its {count} columns in their order, such as `header = [{}]`", names.join(", "))));
        }
        let mut columns = TruncatedList::default();
        for name in &self.header {
            columns.push(format_args!("`{}`", shortened(name)));
        }
        let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
        if is_missing && self.header.iter().any(|name| name.contains(char::REPLACEMENT_CHARACTER)) {
            mistakes.hint(NOT_UTF8_HINT);
        }
        let by = if self.has_header_line { "by its first line" } else { "by the setting `header`" };
        mistakes.hint(format!("{by}, its columns are {}{hint}", columns.join(", ")));
        mistakes.into_result()?;
        Ok(places)
    }

    /// Error for a header that has one column with another separator in its name.
    fn other_separator(&self) -> Option<Error> {
        if !self.has_header_line {
            return None;
        }
        if self.header.first().is_some_and(|name| name.starts_with("sep=")) {
            let error =
                Error::data(format!("`{}` line 1: `sep=` is for Excel, expected column names", self.path.display()));
            return Some(error.hint("remove the line, and set `separator` to its character if that is no comma"));
        }
        let [only] = self.header.as_slice() else { return None };
        let (_, found, setting) = SEPARATORS
            .into_iter()
            .filter(|(byte, ..)| *byte != self.separator && only.as_bytes().contains(byte))
            .max_by_key(|(byte, ..)| only.bytes().filter(|other| other == byte).count())?;
        let own = SEPARATORS.into_iter().find(|(byte, ..)| *byte == self.separator);
        let own = own.map_or_else(|| format!("`{}`", self.separator.escape_ascii()), |(_, name, _)| name.to_owned());
        let error = Error::data(format!(
            "`{}` line 1: its columns are separated by {found}, expected {own}: `{}`",
            self.path.display(),
            shortened(only)
        ));
        Some(match (self.is_tsv, found) {
            (true, _) => error.hint("give the file a name that ends with `.csv`"),
            (false, "commas") => error.hint("leave `separator` out"),
            (false, "tabs") => error.hint(
                "give it a name that ends with `.tsv`, where quotes are text, or, if fields are quoted, set \
                 `separator = \"\\t\"`",
            ),
            _ => error.hint(format!("set `separator = \"{setting}\"`")),
        })
    }

    /// Returns true if there is a column `name`.
    #[must_use]
    pub fn has_column(&self, name: &str) -> bool {
        self.header.iter().any(|header| header == name)
    }

    /// Calls `row` for every row, with its line number and its fields, one for each column of the header. Calls `check`
    /// before each row; its error ends the reading. Returns warnings: places in the file with doubts.
    ///
    /// # Errors
    /// Rows are refused by `row`, have a wrong number of fields, wrong quotes, or are not UTF-8: the error lists all of
    /// them. Or the file cannot be read, has a row of more than 16 MiB, or more than 4 GiB of text. Or an error of
    /// `check`.
    pub fn for_each(
        mut self,
        check: impl Fn() -> Result<()>,
        mut row: impl FnMut(u64, &[&str]) -> Result<(), String>,
    ) -> Result<Vec<String>> {
        let mut mistakes = ValidationErrors::in_file(&self.path);
        let (mut doubts, mut more) = (Vec::new(), 0u64);
        while let Some(record) = self.records.next_record(&check)? {
            if !self.is_tsv
                && let Some(found) = quotes::quote_mistake(record, self.separator, self.header.len())
            {
                if found.severity == Severity::Error {
                    mistakes.add(format_args!("line {}", found.line), found.message);
                    mistakes.hint(found.hint);
                    if record.is_complete {
                        continue;
                    }
                    break;
                }
                if doubts.len() < WARNINGS {
                    doubts.push(format!("line {}: {}", found.line, found.message));
                } else {
                    more += 1;
                }
            }
            let line = record.first_line;
            let place = format_args!("line {line}").to_string();
            if record.count != self.header.len() {
                let to =
                    if record.last_line() > line { format!(" to line {}", record.last_line()) } else { String::new() };
                mistakes.add(place, format_args!("{} fields{to}, expected {}", record.count, self.header.len()));
                if !self.is_tsv && record.count > self.header.len() {
                    let separator = self.separator.escape_ascii();
                    mistakes.hint(if record.raw.windows(3).any(|bytes| *bytes == [self.separator, b' ', b'"']) {
                        format!("a quote must follow the separator at once: `{separator}\"a{separator} b\"`")
                    } else {
                        format!("a field with `{separator}` needs double quotes: `\"a{separator} b\"`")
                    });
                }
                continue;
            }
            let fields: Result<Vec<&str>, _> = record.fields().map(std::str::from_utf8).collect();
            match fields {
                Err(_) => {
                    mistakes.add(place, "bytes that are not UTF-8");
                    mistakes.hint(NOT_UTF8_HINT);
                }
                Ok(_) if record.raw.contains(&0) => mistakes.add(place, "a zero byte, expected text"),
                Ok(fields) => {
                    if let Err(problem) = row(line, &fields) {
                        mistakes.add(place, problem);
                    }
                }
            }
        }
        mistakes.into_result()?;
        if more > 0 {
            doubts.push(format!("{more} more quoted fields have lines that look like rows"));
        }
        Ok(doubts)
    }
}

/// Number of words that no name of a column has.
const WORDS_OF_VALUE: usize = 5;

/// True if a name of a column is rather a value: a URL, the name of an image file or a sentence.
fn is_value(name: &str) -> bool {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    is_image_url(name)
        || ["jpg", "jpeg", "png"].iter().any(|image| extension.eq_ignore_ascii_case(image))
        || name.split_whitespace().count() >= WORDS_OF_VALUE
}

/// First characters of a name, for messages. Line breaks are escaped. In a file without a header it may be that of an image.
fn shortened(name: &str) -> String {
    const SHOWN: usize = 60;
    let name = shown_name(name);
    let shown: String = name.chars().take(SHOWN).collect();
    let more = if shown.len() < name.len() { "…" } else { "" };
    shown + more
}

/// Maximum number of fields of a record.
const MAX_FIELDS: usize = 1 << 18;

/// Reader of records.
#[derive(Debug)]
struct RecordReader {
    lines: LineReader,
    parser: Reader,
    record: DelimitedRecord,
}

impl RecordReader {
    /// Reads records of `lines`. Without `quotes`, a quote is text.
    fn new(lines: LineReader, separator: u8, quotes: bool) -> Self {
        let parser = ReaderBuilder::new().delimiter(separator).quoting(quotes).build();
        Self { lines, parser, record: DelimitedRecord::default() }
    }

    /// Reads the next record; `None` at the end. Empty lines between records are skipped. Calls `check` before each line.
    ///
    /// # Errors
    /// As [`LineReader::next_line`], a record has too many fields, or an error of `check`.
    fn next_record(&mut self, check: impl Fn() -> Result<()>) -> Result<Option<&DelimitedRecord>> {
        let Self { lines, parser, record } = self;
        record.clear();
        let mut text_length = 0;
        loop {
            check()?;
            let Some((number, line)) = lines.next_line()? else {
                if record.raw.is_empty() {
                    return Ok(None);
                }
                // The last line has no line break.
                record.is_complete = parse(parser, b"\n", record, &mut text_length);
                return Ok(Some(record));
            };
            if record.raw.is_empty() {
                if matches!(line, b"\n" | b"\r\n" | b"\r") {
                    continue;
                }
                record.first_line = number;
            }
            record.line_starts.push(record.raw.len());
            record.raw.extend_from_slice(line);
            let is_complete = parse(parser, line, record, &mut text_length);
            if record.count > MAX_FIELDS {
                let message =
                    format!("`{}` line {number}: it has more than {MAX_FIELDS} fields", lines.path().display());
                return Err(Error::data(message).hint("is the separator right, and is this a table?"));
            }
            if is_complete {
                return Ok(Some(record));
            }
            if record.open.is_none_or(|(field, _)| field != record.count) {
                record.open = Some((record.count, number));
            }
            if record.raw.len() > MAX_LINE_BYTES {
                record.is_complete = false;
                record.is_too_long = true;
                return Ok(Some(record));
            }
        }
    }
}

/// Adds the fields of `line` to `record`. Returns true if the record is complete.
fn parse(parser: &mut Reader, line: &[u8], record: &mut DelimitedRecord, text_length: &mut usize) -> bool {
    let mut input = line;
    while !input.is_empty() && record.count <= MAX_FIELDS {
        let (result, read, text, ends) =
            parser.read_record(input, &mut record.text[*text_length..], &mut record.ends[record.count..]);
        input = &input[read..];
        *text_length += text;
        record.count += ends;
        match result {
            ReadRecordResult::InputEmpty => {}
            ReadRecordResult::OutputFull => record.text.resize((record.text.len() * 2).max(1024), 0),
            ReadRecordResult::OutputEndsFull => record.ends.resize((record.ends.len() * 2).max(16), 0),
            // Of a line break of two characters, the second is skipped.
            ReadRecordResult::Record | ReadRecordResult::End => return true,
        }
    }
    false
}

/// Record, with its text in the file.
#[derive(Debug, Default)]
struct DelimitedRecord {
    /// Text in the file, with line breaks.
    raw: Vec<u8>,
    /// Start of each of its lines in `raw`.
    line_starts: Vec<usize>,
    /// Number of its first line, from 1.
    first_line: u64,
    /// Text of the fields, without quotes, one after the other. Only the text up to the last end is valid.
    text: Vec<u8>,
    /// End of each field in `text`. Only the first `count` are valid.
    ends: Vec<usize>,
    /// Number of fields.
    count: usize,
    /// Field that is open at the end of the last line, from 0, and the line in which it starts.
    open: Option<(usize, u64)>,
    /// False if a quote is open at the end of the file, or where the record became too long.
    is_complete: bool,
    /// True if a quote is open where the record became longer than the longest record.
    is_too_long: bool,
}

impl DelimitedRecord {
    /// Fields, without quotes.
    fn fields(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).take(self.count).map(|(start, &end)| &self.text[start..end])
    }

    /// Number of the last line.
    fn last_line(&self) -> u64 {
        self.first_line + (self.line_starts.len() as u64).saturating_sub(1)
    }

    /// Number of the line of a byte of `raw`.
    fn line_of(&self, at: usize) -> u64 {
        self.first_line + (self.line_starts.partition_point(|&start| start <= at) as u64).saturating_sub(1)
    }

    /// Lines after the first, as in the file.
    fn later_lines(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self.line_starts.iter().skip(2).copied().chain([self.raw.len()]);
        self.line_starts.iter().skip(1).zip(ends).map(|(&start, end)| &self.raw[start..end])
    }

    fn clear(&mut self) {
        self.raw.clear();
        self.line_starts.clear();
        self.count = 0;
        self.open = None;
        self.is_complete = true;
        self.is_too_long = false;
    }
}
