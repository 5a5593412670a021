//! Files of people as tables of a session: CSV, tab-separated values, Parquet, JSON Lines.
//!
//! Only files that are named on the command line are read: a query cannot name a file. Errors of the format and panics of a
//! library in their scans are errors of the file.

use std::io::BufReader;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Format;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::{ConfigOptions, OptimizerOptions, TableParquetOptions};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl, PartitionedFile,
};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result as SqlResult};
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt};
use url::Url;

use super::column_names::repeated_name;
use super::file_records::{RecordForm, check_records};
use crate::errors::condition_failure;
use crate::pass_through::{PassThroughExec, ReadInput};
use pairloom_base::error::{Error, Result, panic_error};
use pairloom_base::runtime::NamedFile;
use pairloom_formats::int96::exceeds_nanoseconds;
use pairloom_formats::table_file::TableFile;
use pairloom_storage::bounded;
use pairloom_storage::bounded::UTF8_MARK;

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
            // A process with limits reads the file first: one that needs too much memory or time ends there.
            let file = TableFile::open(path)?;
            check_names(path, file.column_names())?;
            file.check_rows()?;
            let exceeds_nanoseconds = exceeds_nanoseconds(path)?;
            // Views share the texts of a dictionary. An index, a filter or statistics that are wrong would leave out rows.
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

/// Bytes of the file that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// Columns of the file `path`, whose values stand between delimiters. Reads the whole file, one record at a time, and
/// once more for each column of dates or times.
///
/// DataFusion divides a file into blocks first, and not always at the end of a record if a value has line breaks.
///
/// # Errors
/// The file cannot be read, is not UTF-8, or its records have different numbers of values.
pub(super) fn csv_schema(path: &Path, delimiter: u8) -> Result<SchemaRef> {
    let file = bounded::open(path)?;
    let format = Format::default().with_header(true).with_delimiter(delimiter);
    let (schema, _) = format.infer_schema(BufReader::with_capacity(BUFFER_BYTES, file), None).map_err(|error| {
        Error::data(format!("cannot read `{}`: {}", path.display(), error.to_string().replace('\n', " ")))
    })?;
    let mut fields = Vec::new();
    for (place, field) in schema.fields.iter().enumerate() {
        let is_moment = field.data_type().is_temporal();
        let is_text = is_moment && !all_are_read(path, &format, &schema, place)?;
        fields.push(if is_text {
            field.as_ref().clone().with_data_type(DataType::Utf8)
        } else {
            field.as_ref().clone()
        });
    }
    Ok(without_mark(&Schema::new(fields)))
}

/// True if all values of a column are of its type. The types are those of patterns, and `1234-56-78` has that of a date.
fn all_are_read(path: &Path, format: &Format, schema: &Schema, place: usize) -> Result<bool> {
    let content = BufReader::with_capacity(BUFFER_BYTES, bounded::open(path)?);
    let reader = ReaderBuilder::new(Arc::new(schema.clone())).with_format(format.clone());
    let mut reader = reader.with_projection(vec![place]).build_buffered(content)?;
    Ok(reader.all(|batch| batch.is_ok()))
}

/// Schema whose first name does not begin with the byte order mark of the file.
fn without_mark(schema: &Schema) -> SchemaRef {
    let mark = std::str::from_utf8(UTF8_MARK).unwrap_or_default();
    let fields = schema.fields.iter().map(|field| {
        let name = field.name().trim_start_matches(mark).to_owned();
        field.as_ref().clone().with_name(name)
    });
    Schema::new(fields.collect::<Vec<_>>()).into()
}

/// Optimizer rule that puts [`FileScan`] over the scans of files that are not in the store.
#[derive(Debug)]
pub(super) struct FileScans;

impl PhysicalOptimizerRule for FileScans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> SqlResult<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(name) = file_name(&node) else { return Ok(Transformed::no(node)) };
            Ok(Transformed::yes(Arc::new(PassThroughExec::new(node, FileScan { name })) as Arc<dyn ExecutionPlan>))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "file_scans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Name of the file that an operator scans; `None` for other operators, and for files of the store.
fn file_name(node: &Arc<dyn ExecutionPlan>) -> Option<String> {
    let config = node.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()?;
    if !config.object_store_url.as_str().starts_with("file:") {
        return None;
    }
    let path = config.file_groups.iter().flat_map(FileGroup::iter).map(PartitionedFile::path).next()?;
    path.filename().map(str::to_owned)
}

/// Scan of a user's file.
#[derive(Debug)]
struct FileScan {
    name: String,
}

impl ReadInput for FileScan {
    const NAME: &'static str = "FileScanExec";

    fn of_other(&self, _: &Arc<dyn ExecutionPlan>) -> Self {
        Self { name: self.name.clone() }
    }

    fn read(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> SqlResult<SendableRecordBatchStream> {
        let rows = caught(input.execute(partition, context)?, self.name.clone());
        Ok(Box::pin(RecordBatchStreamAdapter::new(input.schema(), rows)))
    }
}

/// Rows of the file `name`. Errors of its format and panics of its reader are errors of the file.
fn caught(
    rows: impl Stream<Item = SqlResult<RecordBatch>> + Send,
    name: String,
) -> impl Stream<Item = SqlResult<RecordBatch>> + Send {
    let damaged = move |message: &str| {
        let error = Error::data(format!("`{name}` cannot be read: {message}"));
        DataFusionError::External(error.hint("the file is damaged: copy it or create it again").into())
    };
    AssertUnwindSafe(rows).catch_unwind().map(move |batch| match batch {
        Ok(Err(error)) if is_format_error(error.find_root()) => {
            Err(damaged(&error.find_root().strip_backtrace().replace('\n', " ")))
        }
        Ok(batch) => batch,
        Err(panic) => Err(damaged(&panic_error(&*panic).to_string())),
    })
}

fn is_format_error(error: &DataFusionError) -> bool {
    match error {
        // The condition is one of the query.
        DataFusionError::ParquetError(_) => condition_failure(error).is_none(),
        DataFusionError::ArrowError(error, _) => {
            use ArrowError::{CsvError, JsonError, ParquetError, ParseError};
            matches!(**error, ParquetError(_) | JsonError(_) | CsvError(_) | ParseError(_))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::stream;

    use super::*;
    use crate::errors::sql_error;
    use crate::testing::scores;
    use pairloom_base::error::ErrorCategory;

    #[test]
    fn a_named_file_is_a_name_and_a_path() {
        let parse = |text: &str| text.parse::<NamedFile>().map(|file| (file.name, file.path.display().to_string()));
        assert_eq!(parse("mine=a=b.csv"), Ok(("mine".to_owned(), "a=b.csv".to_owned())));
        for wrong in ["a.csv", "=a.csv", "mine=", "my table=a.csv", "2=a.csv", "a.b=a.csv"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    /// Values with line breaks in a file larger than the blocks in which object stores read, 8 KiB.
    #[test]
    fn values_with_line_breaks_do_not_change_the_types() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        for (delimiter, mark) in [(b',', ""), (b'\t', "\u{feff}")] {
            let d = char::from(delimiter);
            let rows = (0..3_000).map(|i| format!("{i}{d}\"first line\nsecond{d} \"\"line\"\"\"{d}0.5\n"));
            std::fs::write(&path, format!("{mark}i{d}s{d}f\n{}", rows.collect::<String>())).unwrap();
            let schema = csv_schema(&path, delimiter).unwrap();
            let columns: Vec<_> =
                schema.fields().iter().map(|field| (field.name().as_str(), field.data_type())).collect();
            assert_eq!(columns, [("i", &DataType::Int64), ("s", &DataType::Utf8), ("f", &DataType::Float64)]);
        }
    }

    #[test]
    fn a_panic_of_a_reader_is_an_error_of_the_file() {
        let batch = scores(&[("nns", 1.0)]);
        let rows = stream::iter(0..3).map(move |at| if at < 2 { Ok(batch.clone()) } else { panic!("page {at}") });
        let read: Vec<_> = block_on(caught(rows, "a.parquet".to_owned()).collect());
        let [Ok(_), Ok(_), Err(error)] = &read[..] else { panic!("two batches and an error") };
        let error = sql_error(error);
        assert_eq!(error.category(), ErrorCategory::Data);
        assert_eq!(error.to_string(), "`a.parquet` cannot be read: panicked: page 2");

        let wrong = ArrowError::JsonError("line 7".to_owned());
        let rows = stream::iter([Err(DataFusionError::ArrowError(Box::new(wrong), None))]);
        let read: Vec<_> = block_on(caught(rows, "a.jsonl".to_owned()).collect());
        let error = sql_error(read[0].as_ref().unwrap_err());
        assert_eq!(error.category(), ErrorCategory::Data);
        assert!(error.to_string().starts_with("`a.jsonl` cannot be read: ") && error.to_string().ends_with("line 7"));
    }
}
