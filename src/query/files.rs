//! Files of people as tables of a session: CSV, tab-separated values, Parquet, JSON Lines.
//!
//! Only files that are named on the command line are read: a query cannot name a file.

use std::path::Path;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::config::{OptimizerOptions, TableParquetOptions};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use url::Url;

use super::column_names::repeated_name;
use super::csv_schema::csv_schema;
use super::file_records::{RecordForm, check_records};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::NamedFile;
use pairloom_formats::parquet_check::{check_file, exceeds_nanoseconds};
use pairloom_storage::bounded;
use pairloom_storage::pread::PreadFile;
use pairloom_storage::text_start::UTF8_MARK;

/// Bytes at the start of a file that tell one form of JSON from the other.
const START_BYTES: u64 = 4096;

/// Sets the options of a session that reads `file`.
pub(super) fn set_file_options(options: &mut OptimizerOptions, file: &NamedFile) {
    // A `LIMIT`, `max` or join would skip row groups by their statistics. Those of a file may be wrong, and they leave out NaN.
    options.enable_topk_dynamic_filter_pushdown = false;
    options.enable_aggregate_dynamic_filter_pushdown = false;
    options.enable_join_dynamic_filter_pushdown = false;
    // Of a JSON array, parts cannot be read.
    let is_json = file.path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    options.repartition_file_scans &= !is_json;
}

/// Reader of a format, by the extension of a file.
fn format_of(path: &Path, start: &[u8]) -> Result<Arc<dyn FileFormat>> {
    let extension = extension_of(path);
    let csv = || CsvFormat::default().with_has_header(true).with_newlines_in_values(true);
    // The types of columns are those of all values, so that a late text among numbers is no error.
    let json = |is_lines| JsonFormat::default().with_schema_infer_max_rec(usize::MAX).with_newline_delimited(is_lines);
    let is_array = start.trim_ascii_start().first() == Some(&b'[');
    match extension.as_deref() {
        Some("json") if is_array => check_records(path, RecordForm::Array)?,
        Some("json" | "jsonl" | "ndjson") => check_records(path, RecordForm::Lines)?,
        _ => {}
    }
    if let Some(delimiter) = delimiter_of(path) {
        check_records(path, RecordForm::Delimited(delimiter))?;
        return Ok(Arc::new(csv().with_delimiter(delimiter)));
    }
    Ok(match extension.as_deref() {
        Some("parquet") => {
            let file = PreadFile::open(path)?;
            let damaged = |error: Error| {
                error.context(format!("`{}`", path.display())).hint("the file is damaged: copy it or create it again")
            };
            let metadata = check_file(&file, &|| Ok(())).map_err(damaged)?;
            let root = metadata.file_metadata().schema();
            check_names(path, root.get_fields().iter().map(|field| field.name()))?;
            let exceeds_nanoseconds = exceeds_nanoseconds(&file, &metadata).map_err(damaged)?;
            // Views share the texts of a dictionary. An index of pages could name others than those checked, and Bloom
            // filters are not checked. Statistics that are wrong would leave out rows.
            let mut options = TableParquetOptions::default();
            options.global.schema_force_view_types = true;
            options.global.enable_page_index = false;
            options.global.pruning = false;
            options.global.bloom_filter_on_read = false;
            // In nanoseconds, dates before 1677 and after 2262 would become others.
            options.global.coerce_int96 = exceeds_nanoseconds.then(|| "us".to_owned());
            Arc::new(ParquetFormat::default().with_options(options))
        }
        Some("jsonl" | "ndjson") => Arc::new(json(true)),
        Some("json") => Arc::new(json(!is_array)),
        _ => {
            return Err(Error::usage(format!("unknown format of the file `{}`", path.display()))
                .hint("the extension names the format: csv, tsv, parquet, jsonl, ndjson"));
        }
    })
}

/// Checks a text file as a query does before it reads it. For fuzzing.
///
/// # Errors
/// The file cannot be read, a record or the whole is too large, or its records are of different lengths.
pub fn check_text_file(path: &Path) -> Result<()> {
    let start = bounded::read_start(path, START_BYTES)?;
    format_of(path, start.strip_prefix(UTF8_MARK).unwrap_or(&start))?;
    delimiter_of(path).map_or(Ok(()), |delimiter| csv_schema(path, delimiter).map(drop))
}

/// Table over a file.
///
/// # Errors
/// The file is missing, unreadable or not in the format of its extension.
pub(super) async fn file_table(state: &SessionState, path: &Path) -> Result<(Arc<dyn TableProvider>, u64)> {
    let start = bounded::read_start(path, START_BYTES)?;
    let start = start.strip_prefix(UTF8_MARK).unwrap_or(&start);
    let format = format_of(path, start)?;
    let whole = path.canonicalize().map_err(|error| Error::io("read", path, &error))?;
    let bytes = whole.metadata().map_err(|error| Error::io("read", path, &error))?.len();
    let wrong = |error: &DataFusionError| {
        let message = error.find_root().strip_backtrace().replace('\n', " ");
        Error::data(format!("cannot read `{}`: {message}", path.display()))
    };
    let url = Url::from_file_path(&whole)
        .map_err(|()| Error::usage(format!("cannot read `{}`: its path is no URL", path.display())))?;
    let url = ListingTableUrl::try_new(url, None).map_err(|error| wrong(&error))?;
    let options = ListingOptions::new(format).with_file_extension("");
    let schema = match delimiter_of(path) {
        Some(delimiter) => csv_schema(path, delimiter)?,
        None => options.infer_schema(state, &url).await.map_err(|error| wrong(&error))?,
    };
    check_names(path, schema.fields().iter().map(|field| field.name().as_str()))?;
    if schema.fields().is_empty() {
        return Err(Error::data(format!("`{}` has no columns", path.display())));
    }
    let config = ListingTableConfig::new(url).with_listing_options(options).with_schema(schema);
    let table = ListingTable::try_new(config).map_err(|error| wrong(&error))?;
    Ok((Arc::new(table), bytes))
}

/// Delimiter of the values of a file, by its extension; `None` for other formats.
fn delimiter_of(path: &Path) -> Option<u8> {
    match extension_of(path).as_deref() {
        Some("csv") => Some(b','),
        Some("tsv" | "tab") => Some(b'\t'),
        _ => None,
    }
}

fn extension_of(path: &Path) -> Option<String> {
    path.extension().map(|extension| extension.to_string_lossy().to_lowercase())
}

/// Refuses a file in which two columns have one name: a query could read the first only.
fn check_names<'n>(path: &Path, names: impl IntoIterator<Item = &'n str>) -> Result<()> {
    repeated_name(names).map_or(Ok(()), |name| {
        let error = Error::data(format!("`{}` has two columns with the name `{name}`", path.display()));
        Err(error.hint("rename one of them"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_file_is_a_name_and_a_path() {
        let parse = |text: &str| text.parse::<NamedFile>().map(|file| (file.name, file.path.display().to_string()));
        assert_eq!(parse("mine=a=b.csv"), Ok(("mine".to_owned(), "a=b.csv".to_owned())));
        for wrong in ["a.csv", "=a.csv", "mine=", "my table=a.csv", "2=a.csv", "a.b=a.csv"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
