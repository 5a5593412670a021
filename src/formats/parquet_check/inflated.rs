//! True size of the content of a page, for the codecs whose decoder in the Parquet library does not stop at the size that
//! the page claims.

use std::io::{self, Read, copy, sink};

use az::SaturatingAs;
use flate2::read::MultiGzDecoder;
use parquet::basic::Compression;

use super::page_header::PageHeader;
use crate::lz4_frame;
use pairloom_storage::pread::PreadFile;

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
