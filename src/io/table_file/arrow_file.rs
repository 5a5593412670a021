//! Arrow IPC files (Feather version 2) and streams, memory-mapped. Uncompressed columns are read without copying.
//!
//! Format: <https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc>.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
use arrow::ipc::{Block, CompressionType, Message, MessageHeader, MetadataVersion, RecordBatch as Header, Schema};
use arrow::ipc::{root_as_footer, root_as_message};
use az::SaturatingAs;
use bytes::Bytes;

use super::batches::{BatchIterator, Check, rows_per_batch, truncated_error, values_per_row};
use crate::error::{Error, Result};
use crate::io::lz4_frame;
use crate::io::shard::catch_panic;

/// Continuation marker at the start of a message.
const MARKER: [u8; 4] = [0xff; 4];
/// Maximum decompressed size of a batch in bytes.
const MAX_BATCH: u64 = 2 << 30;

/// Arrow file or stream, with the positions of its messages.
#[derive(Debug)]
pub(super) struct ArrowFile {
    content: Bytes,
    schema: SchemaRef,
    version: MetadataVersion,
    /// Positions of dictionaries and batches, each dictionary before the batches that use it.
    blocks: Vec<(MessageKind, Block)>,
}

/// Kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageKind {
    Dictionary,
    Batch,
}

impl ArrowFile {
    /// Opens a file, whose footer lists its messages.
    pub(super) fn of_file(content: Bytes) -> Result<Self> {
        let last = content.len().checked_sub(10).filter(|last| *last >= 8).ok_or_else(truncated_error)?;
        let length = read_footer_length(std::array::from_fn(|i| content[last + i])).map_err(|_| truncated_error())?;
        let end = last.checked_sub(length).filter(|start| *start >= 8).ok_or_else(truncated_error)?;
        let footer = root_as_footer(&content[end..last]).map_err(|error| unreadable("footer", &error))?;
        let dictionaries = footer.dictionaries().into_iter().flatten().map(|block| (MessageKind::Dictionary, *block));
        let batches = footer.recordBatches().into_iter().flatten().map(|block| (MessageKind::Batch, *block));
        let blocks: Vec<_> = dictionaries.chain(batches).collect();
        for (_, block) in &blocks {
            byte_range(block).filter(|place| place.end <= end).ok_or_else(truncated_error)?;
        }
        let schema = schema(footer.schema())?;
        let version = footer.version();
        Ok(Self { content, schema, version, blocks })
    }

    /// Opens a stream, whose messages follow one another up to an empty one.
    pub(super) fn of_stream(content: Bytes) -> Result<Self> {
        let mut at = 0;
        let mut found = None;
        let mut blocks = Vec::new();
        loop {
            let prefix = content.get(at..at + 8).ok_or_else(truncated_error)?;
            if prefix[..4] != MARKER {
                return Err(Error::data(format!("no message of an Arrow stream at byte {at}")));
            }
            let length = i32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]);
            if length == 0 {
                break;
            }
            // The length excludes the prefix of eight bytes, which is part of the block.
            let metadata = length.checked_add(8).filter(|length| *length > 8).ok_or_else(truncated_error)?;
            let start = i64::try_from(at).map_err(|_| truncated_error())?;
            let message = parse_message(&content, &Block::new(start, metadata, 0))?;
            let block = Block::new(start, metadata, message.bodyLength());
            let end = byte_range(&block)
                .map(|place| place.end)
                .filter(|end| *end <= content.len())
                .ok_or_else(truncated_error)?;
            match message.header_type() {
                MessageHeader::Schema if found.is_none() => {
                    found = Some((schema(message.header_as_schema())?, message.version()));
                }
                MessageHeader::DictionaryBatch => blocks.push((MessageKind::Dictionary, block)),
                MessageHeader::RecordBatch => blocks.push((MessageKind::Batch, block)),
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

    /// Reads the rows of the columns at these indices, in order.
    pub(super) fn batches<'f>(&'f self, places: Vec<usize>, check: Check<'f>) -> BatchIterator<'f> {
        let mut decoder = FileDecoder::new(SchemaRef::clone(&self.schema), self.version).with_projection(places);
        let mut blocks = self.blocks.iter();
        let mut dictionary_bytes = 0;
        let mut slices = BatchSlices::default();
        Box::new(std::iter::from_fn(move || {
            loop {
                if let Some(slice) = slices.next() {
                    return Some(Ok(slice));
                }
                let block = blocks.next()?;
                match check().and_then(|()| self.read(&mut decoder, &mut dictionary_bytes, block)) {
                    Ok(None) => {}
                    Ok(Some(batch)) => slices = BatchSlices::of(batch),
                    Err(error) => return Some(Err(error)),
                }
            }
        }))
    }

    /// Reads a message: a batch, or `None` after a dictionary. `dictionary_bytes` is the size of all dictionaries so far,
    /// which stay in memory.
    fn read(
        &self,
        decoder: &mut FileDecoder,
        dictionary_bytes: &mut u64,
        (kind, block): &(MessageKind, Block),
    ) -> Result<Option<RecordBatch>> {
        let bytes = self.check(*kind, block)?;
        if *kind == MessageKind::Dictionary {
            *dictionary_bytes = dictionary_bytes.saturating_add(bytes);
            if *dictionary_bytes > MAX_BATCH {
                return Err(Error::data(format!(
                    "compressed dictionaries come to {dictionary_bytes} bytes together, wanted at most {MAX_BATCH}"
                ))
                .hint("write the file without compression, or without dictionaries"));
            }
        }
        let content = Buffer::from(self.content.slice(byte_range(block).ok_or_else(truncated_error)?));
        let batch = match kind {
            MessageKind::Dictionary => catch_panic(|| decoder.read_dictionary(block, &content))?.map(|()| None),
            MessageKind::Batch => catch_panic(|| decoder.read_record_batch(block, &content))?,
        };
        batch.map_err(|error| Error::from(error).context("record batch cannot be read"))
    }

    /// Checks the kind of a message and the decompressed size of its buffers. Returns that size; 0 without compression.
    fn check(&self, kind: MessageKind, block: &Block) -> Result<u64> {
        let message = parse_message(&self.content, block)?;
        let batch = match kind {
            MessageKind::Dictionary => message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data()),
            MessageKind::Batch => message.header_as_record_batch(),
        };
        let batch = batch.ok_or_else(|| Error::data("Arrow file has a message of the wrong kind"))?;
        let Some(compression) = batch.compression() else { return Ok(0) };
        let is_lz4 = compression.codec() == CompressionType::LZ4_FRAME;
        let body = byte_range(block).ok_or_else(truncated_error)?;
        let start = body.start + block.metaDataLength().saturating_as::<usize>();
        let bytes = decompressed_size(batch, &self.content[start..body.end], is_lz4)?;
        if bytes > MAX_BATCH {
            return Err(Error::data(format!(
                "compressed record batch comes to {bytes} bytes, wanted at most {MAX_BATCH}"
            ))
            .hint("write the file without compression, or in smaller batches"));
        }
        Ok(bytes)
    }
}

/// Largest decompressed size of the buffers of a batch, from the length prefix of each buffer, and of an LZ4 frame from
/// its blocks.
fn decompressed_size(batch: Header<'_>, body: &[u8], is_lz4: bool) -> Result<u64> {
    let mut bytes = 0u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let length = usize::try_from(buffer.length()).map_err(|_| truncated_error())?;
        let content = usize::try_from(buffer.offset()).ok().and_then(|start| body.get(start..)?.get(..length));
        let content = content.ok_or_else(truncated_error)?;
        match content.first_chunk() {
            Some(prefix) => {
                // A negative length means that the buffer is not compressed.
                let claimed = i64::from_le_bytes(*prefix).saturating_as::<u64>();
                let limit = match claimed {
                    1.. if is_lz4 => lz4_frame::size_limit(&content[prefix.len()..]).ok_or_else(truncated_error)?,
                    _ => claimed,
                };
                // All blocks but the last are full, so a frame of the claimed length has no more room than this.
                if limit > claimed.saturating_add(lz4_frame::LARGEST_BLOCK) {
                    return Err(Error::data(format!(
                        "a compressed buffer has room for {limit} bytes, and claims to have {claimed}"
                    ))
                    .hint("the file is damaged or made to fill the memory"));
                }
                bytes = bytes.saturating_add(limit.max(claimed));
            }
            None if length == 0 => {}
            None => return Err(truncated_error()),
        }
    }
    Ok(bytes)
}

/// Iterator over slices of a batch with a bounded number of values.
#[derive(Default)]
struct BatchSlices {
    rest: Option<RecordBatch>,
    rows: usize,
}

impl BatchSlices {
    fn of(batch: RecordBatch) -> Self {
        let rows = batch.num_rows().max(1);
        let values = batch.columns().iter().map(|column| values(column).div_ceil(rows)).max().unwrap_or(1);
        Self { rest: Some(batch), rows: rows_per_batch(values) }
    }

    fn next(&mut self) -> Option<RecordBatch> {
        let batch = self.rest.take().filter(|batch| batch.num_rows() > 0)?;
        let rows = self.rows.min(batch.num_rows());
        self.rest = Some(batch.slice(rows, batch.num_rows() - rows));
        Some(batch.slice(0, rows))
    }
}

/// Total number of values of a column.
fn values(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::List(_) => column.as_list::<i32>().values().len(),
        DataType::LargeList(_) => column.as_list::<i64>().values().len(),
        kind => column.len().saturating_mul(values_per_row(kind)),
    }
}

/// Parses the message at `block`, without its body.
fn parse_message<'c>(content: &'c [u8], block: &Block) -> Result<Message<'c>> {
    let start = usize::try_from(block.offset()).map_err(|_| truncated_error())?;
    let length =
        usize::try_from(block.metaDataLength()).ok().filter(|length| *length >= 8).ok_or_else(truncated_error)?;
    let metadata = start.checked_add(length).and_then(|end| content.get(start..end)).ok_or_else(truncated_error)?;
    // Files of Arrow before 0.15 have no continuation marker.
    let prefix = if metadata.starts_with(&MARKER) { 8 } else { 4 };
    root_as_message(&metadata[prefix..]).map_err(|error| unreadable("message", &error))
}

/// Byte range of a message with its body.
fn byte_range(block: &Block) -> Option<Range<usize>> {
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
    Ok(SchemaRef::new(catch_panic(|| fb_to_schema(schema))?))
}

fn unreadable(what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::data(format!("{what} of the Arrow file cannot be read: {error}"))
}
