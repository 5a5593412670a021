//! First rows of a table, and which of its columns are images, captions and splits.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_formats::delimited::DelimitedForm;
use pairloom_formats::record_file::{FieldValue, RecordFile};
use pairloom_formats::table_file::{ColumnKind, TableFile};

/// Rows that are read of a table.
const ROWS: usize = 30_000;

/// Splits of a data set, with other names that columns have for them in lower case.
const SPLITS: [(&str, &[&str]); 4] = [
    ("train", &["train", "training"]),
    ("restval", &["restval"]),
    ("val", &["val", "valid", "validation", "dev", "development"]),
    ("test", &["test", "testing"]),
];

/// Names of columns of captions, the most telling first.
const CAPTIONS: [&str; 12] = [
    "caption",
    "captions",
    "text",
    "texts",
    "sentence",
    "sentences",
    "raw",
    "description",
    "comment",
    "title",
    "alt_text",
    "prompt",
];

/// Endings of the names of tables.
pub(super) const TABLES: [&str; 8] = ["csv", "tsv", "tab", "jsonl", "ndjson", "parquet", "arrow", "feather"];

/// Columns of a table, with their first values.
#[derive(Debug)]
pub(super) struct Table {
    pub path: PathBuf,
    /// Separator of a CSV file, if it is no comma.
    pub separator: Option<char>,
    pub columns: Vec<Column>,
    /// True if the rows that were read are all.
    pub is_whole: bool,
}

#[derive(Debug)]
pub(super) struct Column {
    pub name: String,
    pub kind: Kind,
    /// Text of each row, the first of a list; empty if it is missing.
    pub values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Picture,
    Vector,
    Other,
}

impl Table {
    /// Reads the first rows of a table.
    ///
    /// # Errors
    /// The file is no table, or damaged.
    pub fn read(path: &Path) -> Result<Self> {
        let mut separator = None;
        let mut names = open(path, separator)?.column_names()?;
        if let [only] = names.as_slice()
            && let Some(other) =
                [';', '\t', '|'].into_iter().find(|other| ending(path) == "csv" && only.contains(*other))
        {
            separator = Some(other);
            names = open(path, separator)?.column_names()?;
        }
        let columns = kinds(path, names)?;
        let texts = columns.iter().filter(|(_, kind, _)| *kind == Kind::Text);
        let names: Vec<(&str, ColumnKind)> = texts.map(|(name, _, kind)| (name.as_str(), *kind)).collect();
        let mut values: Vec<Vec<String>> = vec![Vec::new(); names.len()];
        let (rows, is_whole) = (Cell::new(0), Cell::new(true));
        let check = || {
            if rows.get() < ROWS {
                return Ok(());
            }
            is_whole.set(false);
            Err(Error::new(ErrorCategory::Interrupted, "enough rows are read"))
        };
        let visit = |_, fields: &[FieldValue<'_>]| {
            rows.set(rows.get() + 1);
            for (values, field) in values.iter_mut().zip(fields) {
                values.push(text(field));
            }
            Ok(())
        };
        if !names.is_empty()
            && let Err(error) = open(path, separator)?.for_each(&names, "", check, visit)
            && error.category() != ErrorCategory::Interrupted
        {
            return Err(error);
        }
        let mut values = values.into_iter();
        let columns = columns.into_iter().map(|(name, kind, _)| {
            let values = if kind == Kind::Text { values.next().unwrap_or_default() } else { Vec::new() };
            Column { name, kind, values }
        });
        let columns = columns.collect();
        Ok(Self { path: path.to_owned(), separator, columns, is_whole: is_whole.get() })
    }

    /// Column of encoded pictures.
    pub fn pictures(&self) -> Option<&Column> {
        self.columns.iter().find(|column| column.kind == Kind::Picture)
    }

    /// Column of URLs of images.
    pub fn urls(&self) -> Option<&Column> {
        self.texts().find(|column| {
            let urls = column.values.iter().filter(|value| is_url(value)).count();
            urls > 0 && urls * 10 >= column.values.len() * 8
        })
    }

    /// Column of captions, other than `image`.
    pub fn captions(&self, image: &str) -> Option<&Column> {
        let mut others = self.texts().filter(|column| column.name != image);
        let named = |column: &Column| CAPTIONS.iter().position(|name| column.name.eq_ignore_ascii_case(name));
        if let Some(named) = others.clone().filter(|column| named(column).is_some()).min_by_key(|column| named(column))
        {
            return Some(named);
        }
        let words = |column: &Column| column.values.iter().map(|value| value.split_whitespace().count()).sum::<usize>();
        let most = others.clone().map(words).max()?;
        others.find(|column| words(column) == most && most >= 2 * column.values.len())
    }

    /// Column of splits, with the split of each of its values. One of them is `train`, and another one `val` or `test`.
    pub fn split(&self) -> Option<(&Column, BTreeMap<&str, &'static str>)> {
        self.texts().find_map(|column| {
            let seen: BTreeSet<&str> = column.values.iter().map(|value| value.trim()).collect();
            let split_of = |value: &str| {
                let value = value.to_lowercase();
                SPLITS.iter().find(|(_, names)| names.contains(&value.as_str())).map(|(split, _)| *split)
            };
            let known =
                seen.into_iter().map(|value| Some((value, split_of(value)?))).collect::<Option<BTreeMap<_, _>>>()?;
            let has = |split: &str| known.values().any(|known| *known == split);
            (has("train") && (has("val") || has("test"))).then_some((column, known))
        })
    }

    /// Columns that can name files: texts without a word of a sentence, those with the ending of an image first.
    pub fn file_columns(&self) -> Vec<&Column> {
        let mut columns: Vec<&Column> = self.texts().filter(|column| !column.values.is_empty()).collect();
        let ends = |column: &Column| {
            let is_image = |value: &String| pairloom_images::image::strip_image_extension(value).is_some();
            column.values.iter().filter(|value| is_image(value)).count()
        };
        columns.sort_by_key(|column| std::cmp::Reverse(ends(column)));
        columns
    }

    fn texts(&self) -> impl Iterator<Item = &Column> + Clone {
        self.columns.iter().filter(|column| column.kind == Kind::Text)
    }

    /// Number of different values of a column; `None` if there may be more.
    pub fn count(&self, column: &Column) -> Option<usize> {
        let seen: BTreeSet<&String> = column.values.iter().collect();
        self.is_whole.then_some(seen.len())
    }

    /// Names of the columns, for messages.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }
}

fn open(path: &Path, separator: Option<char>) -> Result<RecordFile> {
    let separator = separator.and_then(|separator| u8::try_from(separator).ok());
    RecordFile::open(path, DelimitedForm { separator, header: None })
}

/// True for a URL of a web page.
pub(super) fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// Text of a field; empty if it has none.
fn text(field: &FieldValue<'_>) -> String {
    match field {
        FieldValue::Text(text) => (*text).to_owned(),
        FieldValue::Integer(number) => number.to_string(),
        FieldValue::Texts(texts) => texts.first().copied().flatten().unwrap_or_default().to_owned(),
        _ => String::new(),
    }
}

/// Ending of the name of a file in lower case, without `.gz`.
pub(super) fn ending(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    stem.rsplit_once('.').map_or_else(String::new, |(_, ending)| ending.to_owned())
}

/// Names and kinds of the columns of a table.
fn kinds(path: &Path, names: Vec<String>) -> Result<Vec<(String, Kind, ColumnKind)>> {
    if ["csv", "tsv", "tab", "jsonl", "ndjson"].contains(&ending(path).as_str()) {
        return Ok(names.into_iter().map(|name| (name, Kind::Text, ColumnKind::TextsOrLists)).collect());
    }
    let file = TableFile::open(path)?;
    let known = [
        (ColumnKind::TextsOrIntegers, Kind::Text),
        (ColumnKind::TextsOrLists, Kind::Text),
        (ColumnKind::Pictures, Kind::Picture),
        (ColumnKind::Vectors, Kind::Vector),
    ];
    let kind_of = |name: String| {
        let fits = |(kind, _): &&(ColumnKind, Kind)| file.check_columns(&[(name.as_str(), *kind)], "").is_ok();
        let (column, kind) = known.iter().find(fits).copied().unwrap_or((ColumnKind::Texts, Kind::Other));
        (name, kind, column)
    };
    Ok(names.into_iter().map(kind_of).collect())
}
