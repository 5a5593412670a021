//! Headers of the pages of a column chunk, and the true size of their content, for the codecs whose decoder in the Parquet
//! library does not stop at the size that the page claims.
//!
//! Format: <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>, `PageHeader`.

use std::io::{self, Read, copy, sink};
use std::ops::Range;

use az::SaturatingAs;
use flate2::read::MultiGzDecoder;
use parquet::basic::Compression;

use super::thrift::{PAGE_HEADER, ThriftReader, ThriftType};
use crate::lz4_frame;
use pairloom_storage::pread::PreadFile;

/// Bytes of which a header is parsed: those of most headers, and those of headers with long statistics.
const HEADER_BYTES: [u64; 3] = [1 << 10, 1 << 16, 1 << 24];

/// Header of a page, and the place of its bytes.
#[derive(Debug)]
pub(super) struct PageHeader {
    /// Bytes of the page in the file, as they are stored.
    pub(super) place: Range<u64>,
    /// Size that the page claims to have without compression.
    pub(super) claimed: usize,
    /// Number of values.
    pub(super) values: usize,
    /// True for a dictionary, whose values are not those of rows.
    pub(super) is_dictionary: bool,
    /// Bytes at its start that are never compressed: the levels of a page of version 2.
    pub(super) plain: usize,
    /// False for a page of version 2 that says so.
    pub(super) is_compressed: bool,
}

/// Pages in a part of a file.
#[derive(Debug)]
pub(super) struct PageHeaders<'f> {
    file: &'f PreadFile,
    rest: Range<u64>,
}

impl<'f> PageHeaders<'f> {
    pub(super) fn new(file: &'f PreadFile, chunk: Range<u64>) -> Self {
        Self { file, rest: chunk }
    }

    fn read(&self) -> Option<PageHeader> {
        let left = self.rest.end - self.rest.start;
        for bytes in HEADER_BYTES {
            let content = self.file.read(self.rest.start, bytes.min(left).saturating_as()).ok()?;
            if let Some(header) = parse(&content, &self.rest) {
                return Some(header);
            }
            if bytes >= left {
                break;
            }
        }
        None
    }
}

/// Field with the header of a dictionary.
const DICTIONARY: i64 = 7;

/// Number of the field with the header of a page of this type; `None` for pages that nobody writes.
fn field_of(page_type: usize) -> Option<i64> {
    match page_type {
        // A page of values, a dictionary, and a page of values of version 2.
        0 => Some(5),
        2 => Some(DICTIONARY),
        3 => Some(8),
        _ => None,
    }
}

/// Parses the header at the start of `content`, which is the start of `rest`.
fn parse(content: &[u8], rest: &Range<u64>) -> Option<PageHeader> {
    ThriftReader::new(content).structure(PAGE_HEADER)?;
    let mut reader = ThriftReader::new(content);
    let (mut wanted, mut found) = (None, None);
    let (mut claimed, mut length, mut values, mut plain, mut is_compressed) = (None, None, 0, 0usize, true);
    reader.fields(|reader, field, _| {
        match field {
            1 => wanted = Some(field_of(reader.size()?)?),
            2 => claimed = Some(reader.size()?),
            3 => length = Some(reader.size()? as u64),
            5 | DICTIONARY | 8 => {
                // One header only.
                if found.replace(field).is_some() {
                    return None;
                }
                reader.fields(|reader, inner, kind| {
                    match (field, inner) {
                        (_, 1) => values = reader.size()?,
                        (8, 5 | 6) => plain = plain.checked_add(reader.size()?)?,
                        (8, 7) => {
                            is_compressed = kind == ThriftType::True;
                            return Some(false);
                        }
                        _ => return Some(false),
                    }
                    Some(true)
                })?;
            }
            _ => return Some(false),
        }
        Some(true)
    })?;
    let field = found.filter(|_| found == wanted)?;
    let start = rest.start + (content.len() - reader.remaining()) as u64;
    let (claimed, length) = (claimed?, length?);
    let end = start.checked_add(length).filter(|end| *end <= rest.end)?;
    let is_possible = plain <= claimed && plain as u64 <= length;
    let is_dictionary = field == DICTIONARY;
    is_possible.then_some(PageHeader { place: start..end, claimed, values, is_dictionary, plain, is_compressed })
}

impl Iterator for PageHeaders<'_> {
    /// `None` stands for bytes that are no page; nothing follows it.
    type Item = Option<PageHeader>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let page = self.read();
        self.rest.start = page.as_ref().map_or(self.rest.end, |page| page.place.end);
        Some(page)
    }
}

/// Size of the buffer of the Brotli decoder.
const BROTLI_BUFFER: usize = 1 << 16;

/// Returns true if the page holds no more than it claims. Memory: the page as it is stored.
///
/// # Errors
/// The file cannot be read.
pub(super) fn holds_what_it_claims(file: &PreadFile, page: &PageHeader, codec: Compression) -> io::Result<bool> {
    let wanted = (page.claimed - page.plain) as u64;
    let is_trusted = !matches!(codec, Compression::GZIP(_) | Compression::BROTLI(_) | Compression::LZ4);
    // Nothing is decompressed where nothing is wanted.
    if is_trusted || !page.is_compressed || wanted == 0 {
        return Ok(true);
    }
    let start = page.place.start + page.plain as u64;
    let stored = file.read(start, (page.place.end - start).saturating_as())?;
    Ok(match codec {
        Compression::GZIP(_) => is_within(MultiGzDecoder::new(&stored[..]), wanted),
        Compression::BROTLI(_) => is_within(brotli::Decompressor::new(&stored[..], BROTLI_BUFFER), wanted),
        // The library tries LZ4 frames if the page is not in Hadoop's format. All blocks but the last are full.
        _ if lz4_frame::is_frame(&stored) => {
            lz4_frame::size_limit(&stored).is_some_and(|limit| limit <= wanted.saturating_add(lz4_frame::LARGEST_BLOCK))
        }
        _ => true,
    })
}

/// True if the content ends within `wanted` bytes. Content that cannot be decompressed is left to the library, whose
/// decoder fails at the same place.
fn is_within(content: impl Read, wanted: u64) -> bool {
    !copy(&mut content.take(wanted + 1), &mut sink()).is_ok_and(|bytes| bytes > wanted)
}
