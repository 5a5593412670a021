//! Arrow IPC files (Feather version 2) and streams, memory-mapped: columns that are not compressed are read where they lie.
//!
//! Format: <https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc>.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
use arrow::ipc::{Block, Message, MessageHeader, MetadataVersion, RecordBatch as Header, Schema};
use arrow::ipc::{root_as_footer, root_as_message};
use az::SaturatingAs;
use bytes::Bytes;

use super::batches::{Batches, cut, rows_together, width};
use crate::error::{Error, Result};
use crate::io::shard::distrusted;

/// How a message of a stream begins.
const MARKER: [u8; 4] = [0xff; 4];
/// Bytes that a compressed batch may come to.
const MAX_BATCH: u64 = 2 << 30;

/// The messages of an Arrow file or stream.
#[derive(Debug)]
pub(super) struct ArrowFile {
    content: Bytes,
    schema: SchemaRef,
    version: MetadataVersion,
    /// Dictionaries and batches, each dictionary before the batches that use it.
    blocks: Vec<(Content, Block)>,
}

/// What a message holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Dictionary,
    Batch,
}

impl ArrowFile {
    /// The file whose footer says where everything is.
    pub(super) fn of_file(content: Bytes) -> Result<Self> {
        let last = content.len().checked_sub(10).filter(|last| *last >= 8).ok_or_else(cut)?;
        let length = read_footer_length(std::array::from_fn(|i| content[last + i])).map_err(|_| cut())?;
        let end = last.checked_sub(length).filter(|start| *start >= 8).ok_or_else(cut)?;
        let footer = root_as_footer(&content[end..last]).map_err(|error| broken("footer", &error))?;
        let dictionaries = footer.dictionaries().into_iter().flatten().map(|block| (Content::Dictionary, *block));
        let batches = footer.recordBatches().into_iter().flatten().map(|block| (Content::Batch, *block));
        let blocks: Vec<_> = dictionaries.chain(batches).collect();
        for (_, block) in &blocks {
            place(block).filter(|place| place.end <= end).ok_or_else(cut)?;
        }
        let schema = schema(footer.schema())?;
        let version = footer.version();
        Ok(Self { content, schema, version, blocks })
    }

    /// The stream whose messages follow one another until a last one that is empty.
    pub(super) fn of_stream(content: Bytes) -> Result<Self> {
        let mut at = 0;
        let mut found = None;
        let mut blocks = Vec::new();
        loop {
            let prefix = content.get(at..at + 8).ok_or_else(cut)?;
            if prefix[..4] != MARKER {
                return Err(Error::data(format!("no message of an Arrow stream at byte {at}")));
            }
            let length = i32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]);
            if length == 0 {
                break;
            }
            // The length of the message after its prefix, which is part of the block.
            let metadata = length.checked_add(8).filter(|length| *length > 8).ok_or_else(cut)?;
            let start = i64::try_from(at).map_err(|_| cut())?;
            let message = message(&content, &Block::new(start, metadata, 0))?;
            let block = Block::new(start, metadata, message.bodyLength());
            let end = place(&block).map(|place| place.end).filter(|end| *end <= content.len()).ok_or_else(cut)?;
            match message.header_type() {
                MessageHeader::Schema if found.is_none() => {
                    found = Some((schema(message.header_as_schema())?, message.version()));
                }
                MessageHeader::DictionaryBatch => blocks.push((Content::Dictionary, block)),
                MessageHeader::RecordBatch => blocks.push((Content::Batch, block)),
                other => return Err(Error::data(format!("Arrow stream has an unexpected {other:?} at byte {at}"))),
            }
            at = end;
        }
        let (schema, version) = found.ok_or_else(|| Error::data("Arrow stream has no schema"))?;
        Ok(Self { content, schema, version, blocks })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows of the columns at these places, in order.
    pub(super) fn batches(&self, places: Vec<usize>) -> Batches<'_> {
        let mut decoder = FileDecoder::new(SchemaRef::clone(&self.schema), self.version).with_projection(places);
        let mut blocks = self.blocks.iter();
        let mut slices = Slices::default();
        Box::new(std::iter::from_fn(move || {
            loop {
                if let Some(slice) = slices.next() {
                    return Some(Ok(slice));
                }
                match self.read(&mut decoder, blocks.next()?) {
                    Ok(None) => {}
                    Ok(Some(batch)) => slices = Slices::of(batch),
                    Err(error) => return Some(Err(error)),
                }
            }
        }))
    }

    /// The batch of a message, or nothing for a dictionary.
    fn read(&self, decoder: &mut FileDecoder, (kind, block): &(Content, Block)) -> Result<Option<RecordBatch>> {
        self.check(*kind, block)?;
        let content = Buffer::from(self.content.slice(place(block).ok_or_else(cut)?));
        let batch = match kind {
            Content::Dictionary => distrusted(|| decoder.read_dictionary(block, &content))?.map(|()| None),
            Content::Batch => distrusted(|| decoder.read_record_batch(block, &content))?,
        };
        batch.map_err(|error| Error::from(error).context("record batch cannot be read"))
    }

    /// That a message is what it should be, and what is compressed in it does not come to more than memory has.
    fn check(&self, kind: Content, block: &Block) -> Result<()> {
        let message = message(&self.content, block)?;
        let batch = match kind {
            Content::Dictionary => message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data()),
            Content::Batch => message.header_as_record_batch(),
        };
        let batch = batch.ok_or_else(|| Error::data("Arrow file has a message of another kind than its place says"))?;
        if batch.compression().is_none() {
            return Ok(());
        }
        let body = place(block).ok_or_else(cut)?;
        let start = body.start + block.metaDataLength().saturating_as::<usize>();
        let bytes = expanded(batch, &self.content[start..body.end])?;
        if bytes > MAX_BATCH {
            return Err(Error::data(format!(
                "compressed record batch comes to {bytes} bytes, wanted at most {MAX_BATCH}"
            ))
            .hint("write the file without compression, or in smaller batches"));
        }
        Ok(())
    }
}

/// Bytes that the compressed buffers of a batch come to, which stand before each of them.
fn expanded(batch: Header<'_>, body: &[u8]) -> Result<u64> {
    let mut bytes = 0u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let length = usize::try_from(buffer.length()).map_err(|_| cut())?;
        let content = usize::try_from(buffer.offset()).ok().and_then(|start| body.get(start..)?.get(..length));
        match content.ok_or_else(cut)?.first_chunk() {
            // A negative length says that the buffer is not compressed after all.
            Some(prefix) => bytes = bytes.saturating_add(i64::from_le_bytes(*prefix).saturating_as::<u64>()),
            None if length == 0 => {}
            None => return Err(cut()),
        }
    }
    Ok(bytes)
}

/// The rows of a batch, some at a time.
#[derive(Default)]
struct Slices {
    rest: Option<RecordBatch>,
    rows: usize,
}

impl Slices {
    fn of(batch: RecordBatch) -> Self {
        let rows = batch.num_rows().max(1);
        let values = batch.columns().iter().map(|column| values(column).div_ceil(rows)).max().unwrap_or(1);
        Self { rest: Some(batch), rows: rows_together(values) }
    }

    fn next(&mut self) -> Option<RecordBatch> {
        let batch = self.rest.take().filter(|batch| batch.num_rows() > 0)?;
        let rows = self.rows.min(batch.num_rows());
        self.rest = Some(batch.slice(rows, batch.num_rows() - rows));
        Some(batch.slice(0, rows))
    }
}

/// Values of all rows of a column.
fn values(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::List(_) => column.as_list::<i32>().values().len(),
        DataType::LargeList(_) => column.as_list::<i64>().values().len(),
        kind => column.len().saturating_mul(width(kind)),
    }
}

/// The message at `block`, without its body.
fn message<'c>(content: &'c [u8], block: &Block) -> Result<Message<'c>> {
    let start = usize::try_from(block.offset()).map_err(|_| cut())?;
    let length = usize::try_from(block.metaDataLength()).ok().filter(|length| *length >= 8).ok_or_else(cut)?;
    let metadata = start.checked_add(length).and_then(|end| content.get(start..end)).ok_or_else(cut)?;
    // Files of Arrow before 0.15 lack the marker.
    let prefix = if metadata.starts_with(&MARKER) { 8 } else { 4 };
    root_as_message(&metadata[prefix..]).map_err(|error| broken("message", &error))
}

/// Where a message lies with its body.
fn place(block: &Block) -> Option<Range<usize>> {
    let start = usize::try_from(block.offset()).ok()?;
    let body = start.checked_add(usize::try_from(block.metaDataLength()).ok()?)?;
    Some(start..body.checked_add(usize::try_from(block.bodyLength()).ok()?)?)
}

fn schema(schema: Option<Schema<'_>>) -> Result<SchemaRef> {
    let schema = schema.filter(|schema| schema.fields().is_some());
    let schema = schema.ok_or_else(|| Error::data("Arrow file has no schema"))?;
    if !schema.endianness().equals_to_target_endianness() {
        return Err(Error::data("Arrow file was written for processors of the other byte order"));
    }
    Ok(SchemaRef::new(distrusted(|| fb_to_schema(schema))?))
}

fn broken(what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::data(format!("{what} of the Arrow file cannot be read: {error}"))
}
