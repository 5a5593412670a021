//! Arrow IPC files (Feather version 2) and streams, read batch by batch.
//!
//! Format: <https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc>.

use std::io::ErrorKind;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
use arrow::ipc::{Block, CompressionType, Message, MessageHeader, MetadataVersion, RecordBatch as Header, Schema};
use arrow::ipc::{root_as_footer, root_as_message};
use az::SaturatingAs;

use super::batches::{BatchIterator, Check, rows_per_batch, truncated_error, values_per_row};
use crate::error::{Error, Result};
use crate::io::lz4_frame;
use crate::io::pread::PreadFile;
use crate::io::shard::catch_panic;

/// Continuation marker at the start of a message.
const MARKER: [u8; 4] = [0xff; 4];
/// Maximum size of a batch in bytes, as it is stored and decompressed.
const MAX_BATCH: u64 = 2 << 30;

/// Arrow file or stream, with the positions of its messages.
#[derive(Debug)]
pub(super) struct ArrowFile {
    file: PreadFile,
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
    pub(super) fn of_file(file: PreadFile) -> Result<Self> {
        let last = file.size().checked_sub(10).filter(|last| *last >= 8).ok_or_else(truncated_error)?;
        let tail = read_at(&file, last, 10)?;
        let length = read_footer_length(std::array::from_fn(|i| tail[i])).map_err(|_| truncated_error())?;
        let end = last.checked_sub(length as u64).filter(|start| *start >= 8).ok_or_else(truncated_error)?;
        let content = read_at(&file, end, length)?;
        let footer = root_as_footer(&content).map_err(|error| unreadable("footer", &error))?;
        let dictionaries = footer.dictionaries().into_iter().flatten().map(|block| (MessageKind::Dictionary, *block));
        let batches = footer.recordBatches().into_iter().flatten().map(|block| (MessageKind::Batch, *block));
        let blocks: Vec<_> = dictionaries.chain(batches).collect();
        for (_, block) in &blocks {
            byte_range(block).filter(|place| place.end <= end).ok_or_else(truncated_error)?;
        }
        let (schema, version) = (schema(footer.schema())?, footer.version());
        Ok(Self { file, schema, version, blocks })
    }

    /// Opens a stream, whose messages follow one another up to an empty one.
    pub(super) fn of_stream(file: PreadFile) -> Result<Self> {
        let mut at = 0u64;
        let mut found = None;
        let mut blocks = Vec::new();
        loop {
            let prefix = read_at(&file, at, 8)?;
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
            let content = read_at(&file, at, metadata.saturating_as::<usize>())?;
            let message = parse_message(&content)?;
            let block = Block::new(start, metadata, message.bodyLength());
            let end = byte_range(&block)
                .map(|place| place.end)
                .filter(|end| *end <= file.size())
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
        Ok(Self { file, schema, version, blocks })
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
        let place = byte_range(block).ok_or_else(truncated_error)?;
        let stored = place.end - place.start;
        if stored > MAX_BATCH {
            return Err(too_large("record batch has", stored));
        }
        let content = read_at(&self.file, place.start, stored.saturating_as::<usize>())?;
        let bytes = check(*kind, block, &content)?;
        if *kind == MessageKind::Dictionary {
            *dictionary_bytes = dictionary_bytes.saturating_add(bytes.max(stored));
            if *dictionary_bytes > MAX_BATCH {
                return Err(Error::data(format!(
                    "dictionaries come to {dictionary_bytes} bytes together, wanted at most {MAX_BATCH}"
                ))
                .hint("write the file without dictionaries"));
            }
        }
        let content = Buffer::from(content);
        let batch = match kind {
            MessageKind::Dictionary => catch_panic(|| decoder.read_dictionary(block, &content))?.map(|()| None),
            MessageKind::Batch => catch_panic(|| decoder.read_record_batch(block, &content))?,
        };
        batch.map_err(|error| Error::from(error).context("record batch cannot be read"))
    }
}

/// Checks the kind of a message and the decompressed size of its buffers. Returns that size; 0 without compression.
fn check(kind: MessageKind, block: &Block, content: &[u8]) -> Result<u64> {
    let metadata = usize::try_from(block.metaDataLength()).map_err(|_| truncated_error())?;
    let (metadata, body) = content.split_at_checked(metadata).ok_or_else(truncated_error)?;
    let message = parse_message(metadata)?;
    let batch = match kind {
        MessageKind::Dictionary => message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data()),
        MessageKind::Batch => message.header_as_record_batch(),
    };
    let batch = batch.ok_or_else(|| Error::data("Arrow file has a message of the wrong kind"))?;
    let Some(compression) = batch.compression() else { return Ok(0) };
    let bytes = decompressed_size(batch, body, compression.codec() == CompressionType::LZ4_FRAME)?;
    if bytes > MAX_BATCH { Err(too_large("compressed record batch comes to", bytes)) } else { Ok(bytes) }
}

fn too_large(what: &str, bytes: u64) -> Error {
    Error::data(format!("{what} {bytes} bytes, wanted at most {MAX_BATCH}")).hint(
        "write the file in smaller batches (`feather.write_feather(table, path, chunksize=10_000)`), or without \
         compression",
    )
}

/// Reads bytes of the file. A file that ends before them is cut short.
fn read_at(file: &PreadFile, start: u64, length: usize) -> Result<Vec<u8>> {
    file.read(start, length).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => truncated_error(),
        _ => Error::data(format!("{length} bytes at byte {start} cannot be read: {error}")),
    })
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

/// Parses the metadata of a message.
fn parse_message(metadata: &[u8]) -> Result<Message<'_>> {
    // Files of Arrow before 0.15 have no continuation marker.
    let prefix = if metadata.starts_with(&MARKER) { 8 } else { 4 };
    let content = metadata.get(prefix..).filter(|content| !content.is_empty()).ok_or_else(truncated_error)?;
    root_as_message(content).map_err(|error| unreadable("message", &error))
}

/// Byte range of a message with its body.
fn byte_range(block: &Block) -> Option<Range<u64>> {
    let start = u64::try_from(block.offset()).ok()?;
    let body = start.checked_add(u64::try_from(block.metaDataLength()).ok()?)?;
    Some(start..body.checked_add(u64::try_from(block.bodyLength()).ok()?)?)
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
