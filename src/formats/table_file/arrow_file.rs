//! Arrow IPC files (Feather version 2) and streams, read batch by batch.
//!
//! Format: <https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc>.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
use arrow::ipc::{Block, CompressionType, Message, MessageHeader, MetadataVersion, RecordBatch as Header};
use az::SaturatingAs;

use super::batches::BatchSlices;
use super::batches::{BatchIterator, Check, truncated_error};
use super::column::byte_views;
use crate::arrow_metadata::{parse_footer, parse_message};
use crate::expansion_limits::ExpansionLimits;
use crate::expansion_limits::overlap;
use crate::lz4_frame;
use pairloom_base::error::{Error, Result};
use pairloom_storage::pread::PreadFile;
use pairloom_storage::shard::catch_panic;

/// Continuation marker at the start of a message.
const MARKER: [u8; 4] = [0xff; 4];
/// Maximum size of a batch in bytes, as it is stored and decompressed.
const MAX_BATCH: u64 = 2 << 30;
/// Maximum size in bytes of all dictionaries together, which stay in memory.
const MAX_DICTIONARIES: u64 = 1 << 30;

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
        let footer = parse_footer(&content)?;
        let dictionaries = footer.dictionaries().into_iter().flatten().map(|block| (MessageKind::Dictionary, *block));
        let batches = footer.recordBatches().into_iter().flatten().map(|block| (MessageKind::Batch, *block));
        let blocks: Vec<_> = dictionaries.chain(batches).collect();
        check_places(&blocks, end)?;
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
                let rest = file.size().saturating_sub(at.saturating_add(8));
                if rest > 0 {
                    let message = format!("{rest} bytes follow the end of the Arrow stream at byte {at}");
                    return Err(Error::data(message).hint("two streams are two files: name both"));
                }
                break;
            }
            // The length excludes the prefix of eight bytes, which is part of the block.
            let metadata = length.checked_add(8).filter(|length| *length > 8).ok_or_else(truncated_error)?;
            let start = i64::try_from(at).map_err(|_| truncated_error())?;
            let content = read_at(&file, at, metadata.saturating_as::<usize>())?;
            let message = message(&content)?;
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
        let mut reader = MessageReader {
            file: &self.file,
            decoder: FileDecoder::new(decoded_schema(&self.schema), self.version).with_projection(places),
            schema: &self.schema,
            dictionaries: DictionarySizes::default(),
            expansion: ExpansionLimits::of_file(self.file.size()),
        };
        let mut blocks = self.blocks.iter();
        let mut slices = BatchSlices::default();
        Box::new(std::iter::from_fn(move || {
            loop {
                match slices.next(&mut reader.expansion) {
                    Ok(Some(slice)) => return Some(Ok(slice)),
                    Ok(None) => {}
                    Err(error) => return Some(Err(error)),
                }
                let block = blocks.next()?;
                match check().and_then(|()| reader.read(block)) {
                    Ok(None) => {}
                    Ok(Some(batch)) => slices = BatchSlices::of(batch),
                    Err(error) => return Some(Err(error)),
                }
            }
        }))
    }
}

/// Reader of the messages of a file, one after the other.
struct MessageReader<'f> {
    file: &'f PreadFile,
    schema: &'f Schema,
    decoder: FileDecoder,
    dictionaries: DictionarySizes,
    expansion: ExpansionLimits,
}

impl MessageReader<'_> {
    /// Reads a message: a batch, or `None` after a dictionary.
    fn read(&mut self, (kind, block): &(MessageKind, Block)) -> Result<Option<RecordBatch>> {
        let place = byte_range(block).ok_or_else(truncated_error)?;
        let stored = place.end - place.start;
        if stored > MAX_BATCH {
            return Err(too_large("record batch has", stored));
        }
        let content = read_at(self.file, place.start, stored.saturating_as::<usize>())?;
        if !self.check(*kind, block, &content)? {
            return Ok(None);
        }
        let content = Buffer::from(content);
        let batch = match kind {
            MessageKind::Dictionary => catch_panic(|| self.decoder.read_dictionary(block, &content))?.map(|()| None),
            MessageKind::Batch => catch_panic(|| self.decoder.read_record_batch(block, &content))?,
        };
        batch.map_err(|error| Error::from(error).context("record batch cannot be read"))
    }

    /// Checks the kind of a message, the sizes of its buffers, and what the file has given with it. Returns false for a
    /// dictionary that no column of a kind that is read can have.
    fn check(&mut self, kind: MessageKind, block: &Block, content: &[u8]) -> Result<bool> {
        let metadata = usize::try_from(block.metaDataLength()).map_err(|_| truncated_error())?;
        let (metadata, body) = content.split_at_checked(metadata).ok_or_else(truncated_error)?;
        let message = message(metadata)?;
        let dictionary = message.header_as_dictionary_batch().filter(|_| kind == MessageKind::Dictionary);
        let batch = match kind {
            MessageKind::Dictionary => dictionary.and_then(|dictionary| dictionary.data()),
            MessageKind::Batch => message.header_as_record_batch(),
        };
        let batch = batch.ok_or_else(|| Error::data("Arrow file has a message of the wrong kind"))?;
        if dictionary.is_some_and(|dictionary| !is_read(self.schema, dictionary.id())) {
            return Ok(false);
        }
        check_buffers(batch, body)?;
        let mut bytes = content.len() as u64;
        if let Some(compression) = batch.compression() {
            let decompressed = decompressed_size(batch, body, compression.codec() == CompressionType::LZ4_FRAME)?;
            if decompressed > MAX_BATCH {
                return Err(too_large("compressed record batch comes to", decompressed));
            }
            bytes = bytes.max(decompressed);
        }
        match dictionary {
            Some(dictionary) => bytes = self.dictionaries.add(dictionary.id(), dictionary.isDelta(), bytes)?,
            None => self.expansion.add_rows(u64::try_from(batch.length()).map_err(|_| truncated_error())?)?,
        }
        self.expansion.add_bytes(bytes)?;
        Ok(true)
    }
}

/// Schema with which batches are decoded: without metadata, which the library copies for each batch, and with views of
/// bytes, since it would check the texts of views before they are counted.
fn decoded_schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let field = Field::clone(field).with_metadata(HashMap::new());
        let kind = byte_views(field.data_type());
        field.with_data_type(kind)
    });
    SchemaRef::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// True if the values of a dictionary are texts or numbers. To continue a dictionary of other values, such as unions, the
/// library may need memory of any size.
fn is_read(schema: &Schema, id: i64) -> bool {
    #[expect(deprecated, reason = "there is no other way from the number of a dictionary to its type")]
    let fields = schema.fields_with_dict_id(id);
    fields.first().is_some_and(|field| match field.data_type() {
        DataType::Dictionary(_, values) => {
            values.is_primitive() || matches!(**values, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        }
        _ => false,
    })
}

/// Checks that the buffers of a batch fit into it one after the other. If they shared bytes, a copy of each could fill the
/// memory.
fn check_buffers(batch: Header<'_>, body: &[u8]) -> Result<()> {
    let mut lengths = batch.buffers().into_iter().flatten().map(|buffer| u64::try_from(buffer.length()).ok());
    let sum = lengths.try_fold(0_u64, |sum, length| sum.checked_add(length?)).ok_or_else(truncated_error)?;
    if sum > body.len() as u64 {
        let message = format!("the buffers of a record batch have {sum} bytes, and the batch {}", body.len());
        return Err(Error::data(message).hint("the file is damaged or made to fill the memory"));
    }
    Ok(())
}

/// Sizes in bytes of the dictionaries that are in memory, by their numbers.
#[derive(Debug, Default)]
struct DictionarySizes {
    sizes: HashMap<i64, u64>,
    sum: u64,
}

impl DictionarySizes {
    /// Adds a dictionary, which replaces one of the same number, or continues it if it is a delta. Returns its whole size:
    /// the library copies a dictionary for each delta.
    fn add(&mut self, id: i64, is_delta: bool, bytes: u64) -> Result<u64> {
        let before = self.sizes.get(&id).copied().unwrap_or(0);
        let whole = if is_delta { before.saturating_add(bytes) } else { bytes };
        self.sum = (self.sum - before).saturating_add(whole);
        self.sizes.insert(id, whole);
        if self.sum > MAX_DICTIONARIES {
            let sum = self.sum;
            let message = format!("dictionaries come to {sum} bytes together, wanted at most {MAX_DICTIONARIES}");
            return Err(Error::data(message).hint("write the file without dictionaries"));
        }
        Ok(whole)
    }
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

/// Parses the metadata of a message, after its mark and length.
fn message(metadata: &[u8]) -> Result<Message<'_>> {
    // Files of Arrow before 0.15 have no continuation marker.
    let prefix = if metadata.starts_with(&MARKER) { 8 } else { 4 };
    let content = metadata.get(prefix..).filter(|content| !content.is_empty()).ok_or_else(truncated_error)?;
    parse_message(content)
}

/// Checks that all messages are before `end`, and that no two share bytes.
fn check_places(blocks: &[(MessageKind, Block)], end: u64) -> Result<()> {
    let places = blocks.iter().map(|(_, block)| byte_range(block).filter(|place| place.end <= end));
    let mut places = places.collect::<Option<Vec<_>>>().ok_or_else(truncated_error)?;
    if overlap(&mut places) {
        return Err(Error::data("two of its record batches are in the same place")
            .hint("the file is damaged or made to take for ever"));
    }
    Ok(())
}

/// Byte range of a message with its body.
fn byte_range(block: &Block) -> Option<Range<u64>> {
    let start = u64::try_from(block.offset()).ok()?;
    let body = start.checked_add(u64::try_from(block.metaDataLength()).ok()?)?;
    Some(start..body.checked_add(u64::try_from(block.bodyLength()).ok()?)?)
}

fn schema(schema: Option<arrow::ipc::Schema<'_>>) -> Result<SchemaRef> {
    let schema = schema.filter(|schema| schema.fields().is_some());
    let schema = schema.ok_or_else(|| Error::data("Arrow file has no schema"))?;
    if !schema.endianness().equals_to_target_endianness() {
        return Err(Error::data("Arrow file was written for processors of the other byte order"));
    }
    Ok(SchemaRef::new(catch_panic(|| fb_to_schema(schema))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_share_bytes_are_refused() {
        let message_of = |buffers: &[[i64; 2]]| {
            let mut builder = flatbuffers::FlatBufferBuilder::new();
            let buffers: Vec<_> = buffers.iter().map(|[at, length]| arrow::ipc::Buffer::new(*at, *length)).collect();
            let buffers = Some(builder.create_vector(&buffers));
            let args = arrow::ipc::RecordBatchArgs { buffers, ..Default::default() };
            let header = Some(Header::create(&mut builder, &args).as_union_value());
            let header_type = MessageHeader::RecordBatch;
            let message = arrow::ipc::MessageArgs { header_type, header, ..Default::default() };
            let message = Message::create(&mut builder, &message);
            builder.finish(message, None);
            builder.finished_data().to_vec()
        };
        let check = |buffers: &[[i64; 2]]| {
            let content = message_of(buffers);
            check_buffers(parse_message(&content).unwrap().header_as_record_batch().unwrap(), &[0; 400])
        };
        check(&[[0, 0], [0, 200], [200, 200]]).unwrap();
        let error = check(&[[0, 400], [0, 400]]).unwrap_err();
        assert_eq!(error.to_string(), "the buffers of a record batch have 800 bytes, and the batch 400");
        assert!(check(&[[0, -1]]).is_err());
    }

    /// Sizes by hand: dictionaries are replaced, or continued and then copied whole.
    #[test]
    fn dictionaries_in_memory_are_limited() {
        let mut sizes = DictionarySizes::default();
        assert_eq!(sizes.add(1, false, 600 << 20).unwrap(), 600 << 20);
        assert_eq!(sizes.add(1, false, 500 << 20).unwrap(), 500 << 20);
        assert_eq!(sizes.add(1, true, 100 << 20).unwrap(), 600 << 20);
        assert_eq!(sizes.add(2, true, 424 << 20).unwrap(), 424 << 20);
        let error = sizes.add(7, false, 1).unwrap_err();
        assert_eq!(error.to_string(), "dictionaries come to 1073741825 bytes together, wanted at most 1073741824");
        assert!(error.hint_text().unwrap().contains("without dictionaries"));
        assert!(sizes.add(7, true, u64::MAX).is_err());
    }
}
