//! Columns of a Parquet or Arrow file, written as an Arrow stream in plain types and small batches. The libraries read the
//! formats; what is checked here is that no rows are lost.

use std::io::{BufReader, Seek as _, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::ipc::reader::{FileReader, StreamReader};
use arrow::ipc::writer::StreamWriter;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::RowGroupMetaData;

use pairloom_base::error::{Error, Result};
use pairloom_storage::parquet::BATCH_ROWS;
use pairloom_storage::pread::PreadFile;
use pairloom_storage::shard::catch_panic;
use pairloom_storage::{bounded, files};
use pairloom_tables as tables;

/// Bytes of a batch, if a row has fewer.
const BATCH_BYTES: usize = 32 << 20;

/// Writes the columns at `places` of the table at `path` as an Arrow stream: texts as UTF-8 with offsets of 32 bits, without
/// dictionaries and views, in batches of at most 8,192 rows. Without `places`, writes the schema of the file.
///
/// # Errors
/// The file is missing, in another format, cut short or damaged, or `output` cannot be written.
pub(super) fn read_table(path: &Path, places: &[usize], output: impl Write) -> Result<()> {
    let begin = files::first_bytes::<8>(path)?;
    let read = catch_panic(|| {
        let mut columns = Columns { places, output: Some(output), writer: None, schema: Arc::new(Schema::empty()) };
        match begin {
            [b'P', b'A', b'R', b'1', ..] => read_parquet(path, &mut columns),
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] => read_arrow_file(path, &mut columns),
            [0xff, 0xff, 0xff, 0xff, ..] => read_arrow_stream(path, &mut columns),
            _ => return Err(format_error(begin)),
        }
        .and_then(|()| columns.finish())
        .map_err(|error| error.hint("the file is cut short or damaged: copy it or create it again"))
    });
    read.flatten().map_err(|error| error.context(format!("`{}`", path.display())))
}

fn read_parquet(path: &Path, columns: &mut Columns<'_, impl Write>) -> Result<()> {
    let file = PreadFile::open(path)?;
    let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())?;
    if !columns.begin(metadata.schema())? {
        return Ok(());
    }
    let schema = metadata.parquet_schema();
    let mask = ProjectionMask::roots(schema, columns.places.iter().copied());
    for (number, group) in metadata.metadata().row_groups().iter().enumerate() {
        if let Some(other) = group.columns().iter().find_map(|column| column.file_path()) {
            return Err(Error::data(format!("its columns are in another file, {other:?}")).hint("name that file"));
        }
        let chosen = (0..group.num_columns()).filter(|leaf| mask.leaf_included(*leaf));
        let bytes = chosen.map(|leaf| usize::try_from(group.column(leaf).uncompressed_size()).unwrap_or(0));
        let rows = rows_per_batch(bytes.fold(0, usize::saturating_add), row_count(group));
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file.clone(), metadata.clone());
        let reader =
            reader.with_row_groups(vec![number]).with_projection(mask.clone()).with_batch_size(rows).build()?;
        let mut read = 0;
        for batch in reader {
            let batch = batch?;
            read += batch.num_rows();
            columns.write(&batch)?;
        }
        if read != row_count(group) {
            let message = format!("row group {number} has {read} rows, and its metadata says {}", group.num_rows());
            return Err(Error::data(message));
        }
    }
    Ok(())
}

fn row_count(group: &RowGroupMetaData) -> usize {
    usize::try_from(group.num_rows()).unwrap_or(0)
}

fn read_arrow_file(path: &Path, columns: &mut Columns<'_, impl Write>) -> Result<()> {
    let file = BufReader::new(bounded::open(path)?);
    let projection = (!columns.places.is_empty()).then(|| columns.places.to_vec());
    let mut reader = FileReader::try_new(file, projection)?;
    if !columns.begin(&reader.schema())? {
        return Ok(());
    }
    let mut batches = 0;
    for batch in reader.by_ref() {
        columns.write(&batch?)?;
        batches += 1;
    }
    // The reader ends at a message of no kind.
    if batches != reader.num_batches() {
        return Err(Error::data(format!("batch {batches} is no batch")));
    }
    Ok(())
}

fn read_arrow_stream(path: &Path, columns: &mut Columns<'_, impl Write>) -> Result<()> {
    let file = bounded::open(path)?;
    let bytes = file.metadata().map_err(|error| Error::io("read", path, &error))?.len();
    let projection = (!columns.places.is_empty()).then(|| columns.places.to_vec());
    let mut reader = StreamReader::try_new(BufReader::new(file), projection)?;
    if !columns.begin(&reader.schema())? {
        return Ok(());
    }
    for batch in &mut reader {
        columns.write(&batch?)?;
    }
    // A reader takes a cut between two messages for the end.
    let end = reader.get_mut().stream_position().map_err(|error| Error::io("read", path, &error))?;
    if end < bytes {
        let message = format!("{} bytes follow the end of the Arrow stream at byte {end}", bytes - end);
        return Err(Error::data(message).hint("two streams are two files: name both"));
    }
    let mut last = END_OF_STREAM;
    let file = reader.get_ref().get_ref();
    file.read_exact_at(&mut last, end - 8).map_err(|error| Error::io("read", path, &error))?;
    if last == END_OF_STREAM { Ok(()) } else { Err(Error::data("the Arrow stream has no end")) }
}

/// Last bytes of a whole Arrow stream: a message of no bytes.
const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Columns that are written as an Arrow stream.
struct Columns<'p, W: Write> {
    places: &'p [usize],
    output: Option<W>,
    writer: Option<StreamWriter<W>>,
    schema: SchemaRef,
}

impl<W: Write> Columns<'_, W> {
    /// Writes the schema, that of the file or of the chosen columns. Returns true if rows are wanted too.
    fn begin(&mut self, schema: &Schema) -> Result<bool> {
        if self.places.is_empty() {
            self.schema = Arc::new(Schema::new(schema.fields().clone()));
        } else {
            let fields = schema.project(self.places)?.fields;
            self.schema = Arc::new(Schema::new(fields.iter().map(plain_field).collect::<Vec<_>>()));
        }
        self.writer = self.output.take().map(|output| StreamWriter::try_new(output, &self.schema)).transpose()?;
        Ok(!self.places.is_empty())
    }

    /// Writes the rows of a batch.
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let bytes = batch.columns().iter().map(|column| column_bytes(column)).sum();
        let rows = rows_per_batch(bytes, batch.num_rows());
        for start in (0..batch.num_rows()).step_by(rows) {
            let slice = batch.slice(start, rows.min(batch.num_rows() - start));
            let fields = self.schema.fields().iter();
            let columns = slice.columns().iter().zip(fields).map(|(column, field)| plain(column, field.data_type()));
            let slice = tables::batch(&self.schema, columns.collect::<Result<_>>()?)?;
            self.writer.iter_mut().try_for_each(|writer| writer.write(&slice))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        Ok(self.writer.iter_mut().try_for_each(StreamWriter::finish)?)
    }
}

/// Number of rows of a batch, if `rows` rows have this size.
fn rows_per_batch(bytes: usize, rows: usize) -> usize {
    let each = bytes.div_ceil(rows.max(1)).max(1);
    (BATCH_BYTES / each).clamp(1, BATCH_ROWS)
}

/// Size of a column without its dictionary, of whose texts it takes the mean, and with the texts of views as often as they
/// stand there.
fn column_bytes(column: &dyn Array) -> usize {
    match column.data_type() {
        DataType::Utf8View => column.as_string_view().lengths().map(|length| length as usize).sum(),
        DataType::BinaryView => column.as_binary_view().lengths().map(|length| length as usize).sum(),
        DataType::Dictionary(..) => {
            let values = column.as_any_dictionary().values();
            column.len().saturating_mul(column_bytes(values) / values.len().max(1))
        }
        DataType::Struct(_) => column.as_struct().columns().iter().map(|field| column_bytes(field)).sum(),
        _ => column.to_data().get_slice_memory_size().unwrap_or(0),
    }
}

fn plain_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::clone(field).with_data_type(plain_type(field.data_type())))
}

/// Type without dictionaries and views.
fn plain_type(kind: &DataType) -> DataType {
    match kind {
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::LargeBinary,
        DataType::List(item) => DataType::List(plain_field(item)),
        DataType::LargeList(item) => DataType::LargeList(plain_field(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(plain_field(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        kind => kind.clone(),
    }
}

fn plain(column: &ArrayRef, kind: &DataType) -> Result<ArrayRef> {
    match column.data_type() {
        // The rows of the slice, before the conversion of all texts of the dictionary.
        DataType::Dictionary(_, values) => Ok(cast(&cast(column, values)?, kind)?),
        other if other == kind => Ok(Arc::clone(column)),
        _ => Ok(cast(column, kind)?),
    }
}

/// Error for a file of another format, by its first bytes.
fn format_error(begin: [u8; 8]) -> Error {
    let (what, hint) = match begin {
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => ("is a NumPy array, expected a table", None),
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
            ("is a pointer of Git LFS, expected its file", Some("fetch it: `git lfs pull`"))
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
