//! Validated metadata of an Arrow file: schema and positions of the columns' buffers.

use std::ops::Range;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::read_footer_length;
use arrow::ipc::{Block, MessageHeader, MetadataVersion, root_as_footer, root_as_message};

use pairloom_base::error::{Error, Result, caught};

/// Magic bytes at the start and the end of an Arrow file.
const MAGIC: &[u8] = b"ARROW1";
/// Alignment of buffers that the Arrow format requires, sufficient for every type.
const ALIGNMENT: usize = 8;

/// Layout of an Arrow file with one record batch.
pub(super) struct ArrowFileLayout {
    pub schema: SchemaRef,
    pub rows: usize,
    pub version: MetadataVersion,
    /// Entry of the batch in the footer.
    pub block: Block,
    /// Range of the batch in the file: header and buffers.
    pub message: Range<usize>,
    /// First node and first buffer of each column. Parents come before their children.
    pub starts: Vec<ColumnStart>,
    pub nodes: Vec<ArrowFieldNode>,
    /// Ranges of the buffers in the file.
    pub buffers: Vec<Range<usize>>,
}

/// Indices of the first node and the first buffer of a column.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ColumnStart {
    pub node: usize,
    pub buffer: usize,
}

/// Field node: number of values and of nulls in an array.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArrowFieldNode {
    pub length: usize,
    pub nulls: usize,
}

impl ArrowFileLayout {
    /// Reads the metadata of the Arrow file `bytes`. Calls `check` to verify each range before reading it.
    ///
    /// # Errors
    /// The file is damaged, or not an Arrow file with one uncompressed record batch without dictionaries.
    pub fn parse(bytes: &[u8], check: impl Fn(Range<usize>) -> Result<()>) -> Result<Self> {
        let cut = || Error::data(format!("{} bytes are no Arrow file: it is cut short or something else", bytes.len()));
        let last = bytes.len().checked_sub(10).filter(|last| *last >= 8).ok_or_else(cut)?;
        check(0..8)?;
        check(last..bytes.len())?;
        if !bytes.starts_with(MAGIC) {
            return Err(cut());
        }
        let length = read_footer_length(std::array::from_fn(|i| bytes[last + i])).map_err(|_| cut())?;
        let footer = last.checked_sub(length).filter(|start| *start >= 8).ok_or_else(cut)?;
        check(footer..last)?;
        let end = footer;
        let footer = root_as_footer(&bytes[footer..last]).map_err(|error| unreadable("footer", &error))?;

        let blocks = footer.recordBatches().map_or(0, |blocks| blocks.len());
        if blocks != 1 {
            return Err(Error::data(format!("Arrow file has {blocks} record batches, expected one")));
        }
        let dictionaries = footer.dictionaries().map_or(0, |blocks| blocks.len());
        if dictionaries != 0 {
            return Err(Error::data(format!("Arrow file has {dictionaries} dictionaries, expected plain columns")));
        }
        let schema = footer.schema().ok_or_else(|| Error::data("Arrow file has no schema"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(Error::data("Arrow file was written for processors of the other byte order"));
        }
        if schema.fields().is_none() {
            return Err(Error::data("Arrow file has a schema without fields"));
        }
        let schema = SchemaRef::new(catch_panic(|| fb_to_schema(schema))?);
        check_column_types(&schema)?;
        let block = *footer.recordBatches().ok_or_else(cut)?.get(0);
        let mut layout = Self {
            schema,
            version: footer.version(),
            block,
            rows: 0,
            message: 0..0,
            starts: vec![],
            nodes: vec![],
            buffers: vec![],
        };
        layout.read_batch(bytes, end, check)?;
        layout.find_columns()?;
        Ok(layout)
    }

    /// Reads the header of the batch. Header and buffers must be before offset `end`.
    fn read_batch(&mut self, bytes: &[u8], end: usize, check: impl Fn(Range<usize>) -> Result<()>) -> Result<()> {
        let block = self.block;
        let wrong = |what: &str| Error::data(format!("header of the record batch has {what}"));
        let place = || {
            let start = usize::try_from(block.offset()).ok()?;
            let body =
                start.checked_add(usize::try_from(block.metaDataLength()).ok().filter(|length| *length >= 8)?)?;
            let stop = body.checked_add(usize::try_from(block.bodyLength()).ok()?)?;
            (stop <= end).then_some((start, body, stop))
        };
        let (start, body, stop) = place().ok_or_else(|| wrong("a place outside of the file"))?;
        check(start..body)?;
        self.message = start..stop;
        // Files of Arrow before 0.15 have no continuation marker.
        let prefix = if bytes[start..].starts_with(&[0xff; 4]) { 8 } else { 4 };
        let message = root_as_message(&bytes[start + prefix..body]).map_err(|error| unreadable("batch", &error))?;
        if message.header_type() != MessageHeader::RecordBatch {
            return Err(Error::data(format!("Arrow file has {:?}, expected a record batch", message.header_type())));
        }
        let batch = message.header_as_record_batch().ok_or_else(|| wrong("no content"))?;
        if let Some(compression) = batch.compression() {
            let codec = compression.codec();
            return Err(Error::data(format!("record batch is compressed ({codec:?}), expected plain buffers"))
                .hint("write the file without compression"));
        }
        self.rows = usize::try_from(batch.length()).map_err(|_| wrong("a negative number of rows"))?;
        for node in batch.nodes().ok_or_else(|| wrong("no nodes"))? {
            match (usize::try_from(node.length()), usize::try_from(node.null_count())) {
                (Ok(length), Ok(nulls)) if nulls <= length => self.nodes.push(ArrowFieldNode { length, nulls }),
                _ => return Err(wrong("an array of a negative length or with more nulls than values")),
            }
        }
        for buffer in batch.buffers().ok_or_else(|| wrong("no buffers"))? {
            let place = || {
                let start = body.checked_add(usize::try_from(buffer.offset()).ok()?)?;
                let end = start.checked_add(usize::try_from(buffer.length()).ok()?)?;
                (end <= stop && start % ALIGNMENT == 0).then_some(start..end)
            };
            self.buffers.push(place().ok_or_else(|| wrong("a buffer outside of the file or at an odd place"))?);
        }
        Ok(())
    }

    /// Finds the start of each column, and checks that the batch matches the schema.
    fn find_columns(&mut self) -> Result<()> {
        let mut at = ColumnStart::default();
        for field in self.schema.fields() {
            self.starts.push(at);
            let length = self.nodes.get(at.node).map_or(0, |node| node.length);
            if length != self.rows {
                let name = field.name();
                return Err(Error::data(format!("column `{name}` has {length} rows, expected {}", self.rows)));
            }
            at = column_after(field.data_type(), at);
        }
        if (at.node, at.buffer) != (self.nodes.len(), self.buffers.len()) {
            return Err(Error::data(format!(
                "record batch has {} arrays and {} buffers, its schema wants {} and {}",
                self.nodes.len(),
                self.buffers.len(),
                at.node,
                at.buffer
            )));
        }
        Ok(())
    }
}

/// Runs `read` and turns a panic of the Arrow or Parquet library on invalid metadata into an error.
pub fn catch_panic<T>(read: impl FnOnce() -> T) -> Result<T> {
    caught(read).map_err(|_| Error::data("the file has inconsistent metadata"))
}

/// Start of the column that follows one of type `kind`.
/// Source: <https://arrow.apache.org/docs/format/Columnar.html#buffer-listing-for-each-layout>.
fn column_after(kind: &DataType, at: ColumnStart) -> ColumnStart {
    let own = |buffers| ColumnStart { node: at.node + 1, buffer: at.buffer + buffers };
    match kind {
        DataType::Utf8 | DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary => own(3),
        DataType::FixedSizeList(item, _) => column_after(item.data_type(), own(1)),
        DataType::List(item) | DataType::LargeList(item) => column_after(item.data_type(), own(2)),
        _ => own(2),
    }
}

/// Returns true for types that [`column_after`] supports.
fn is_supported(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary | DataType::Boolean => true,
        DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item) => {
            is_supported(item.data_type())
        }
        kind => kind.is_primitive(),
    }
}

/// Checks that all columns have supported types: numbers, texts, or lists of them.
pub(super) fn check_column_types(schema: &Schema) -> Result<(), ArrowError> {
    let unknown = |field: &&std::sync::Arc<Field>| !is_supported(field.data_type());
    match schema.fields().iter().find(unknown) {
        None => Ok(()),
        Some(field) => Err(ArrowError::SchemaError(format!(
            "column `{}` is {}, expected numbers, texts, or lists of them",
            field.name(),
            field.data_type()
        ))),
    }
}

fn unreadable(what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::data(format!("{what} of the Arrow file cannot be read: {error}"))
}
