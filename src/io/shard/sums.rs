//! Digests of the chunks of a shard, so that damage is found where and when it is read.
//!
//! ```text
//! offset  bytes
//!  0       8     "PAIRSUMS"
//!  8       8     bytes of the shard, little-endian
//! 16       8     bytes of a chunk, little-endian: 16,384
//! 24      16     digest of the 24 bytes before
//! 40      16·n   digest of each of the n chunks; the last chunk may be shorter
//! ```
//!
//! A digest is the first 16 bytes of BLAKE3 (<https://github.com/BLAKE3-team/BLAKE3-specs>). The header has one of its
//! own; that of a chunk proves itself, since a damaged digest fits no chunk. So opening costs the same for any size.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::Mmap;

use super::{SHARD, SUMS};
use crate::error::{Error, Result};

/// Bytes that are checked at a time: a few vectors, and as many as BLAKE3 hashes side by side.
pub(super) const CHUNK: usize = 1 << 14;
const DIGEST: usize = 16;
const HEADER: usize = 40;
const MAGIC: &[u8; 8] = b"PAIRSUMS";

/// The digests of a shard, and which of its chunks were checked.
pub(super) struct Sums {
    map: Mmap,
    /// A bit for each chunk.
    checked: Box<[AtomicU64]>,
}

/// Bytes that are not those that were written.
#[derive(Debug)]
pub(super) struct Damage {
    pub range: Range<usize>,
    pub found: String,
    pub wanted: String,
}

impl Damage {
    #[cold]
    pub fn error(&self) -> Error {
        let Self { range, found, wanted } = self;
        Error::data(format!("bytes {} to {} have digest {found}, wanted {wanted}: damaged", range.start, range.end))
    }
}

impl Sums {
    /// Opens the digests in `folder`, of a shard of `length` bytes.
    ///
    /// # Errors
    /// They are missing or damaged, or the shard has another length.
    pub fn open(folder: &Path, length: u64) -> Result<Self> {
        let path = folder.join(SUMS);
        let shown = path.display();
        let file = File::open(&path).map_err(|error| Error::io("open the digests of the shard", &path, &error))?;
        let found = file.metadata().map_err(|error| Error::io("look at", &path, &error))?.len();
        let damaged = |what: String| Error::data(what).hint("remove the shard: it is made anew when it is wanted");
        if found < HEADER as u64 {
            return Err(damaged(format!(
                "digests of a shard have {found} bytes, wanted at least {HEADER} in `{shown}`"
            )));
        }
        #[expect(unsafe_code, reason = "a memory map is sound as long as nobody changes the file, which we document")]
        let map = unsafe { Mmap::map(&file) }.map_err(|error| Error::io("map", &path, &error))?;
        if !map.starts_with(MAGIC) || map[24..HEADER] != digest(&map[..24]) {
            return Err(damaged(format!("digests of a shard have a damaged header in `{shown}`")));
        }
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| map[at + i]));
        let (wanted, chunk) = (number(8), number(16));
        if chunk != CHUNK as u64 {
            return Err(damaged(format!("digests are of chunks of {chunk} bytes, wanted {CHUNK}, in `{shown}`")));
        }
        if length != wanted {
            let shard = folder.join(SHARD);
            return Err(damaged(format!("shard has {length} bytes, wanted {wanted}: `{}`", shard.display())));
        }
        if size(length) != found {
            return Err(damaged(format!(
                "digests of a shard of {length} bytes have {found} bytes, wanted {}, in `{shown}`",
                size(length)
            )));
        }
        let chunks = (map.len() - HEADER) / DIGEST;
        let checked = (0..chunks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { map, checked })
    }

    /// That the bytes of `range` of the shard are what was written. Each chunk is hashed the first time it is asked for.
    #[inline]
    pub fn check(&self, bytes: &[u8], range: Range<usize>) -> Result<(), Damage> {
        if range.is_empty() {
            return Ok(());
        }
        for chunk in range.start / CHUNK..=(range.end - 1) / CHUNK {
            // The bit guards nothing but itself: the bytes are there from the start and never change.
            if self.checked[chunk / 64].load(Ordering::Relaxed) & (1 << (chunk % 64)) == 0 {
                self.check_chunk(bytes, chunk)?;
            }
        }
        Ok(())
    }

    #[cold]
    fn check_chunk(&self, bytes: &[u8], chunk: usize) -> Result<(), Damage> {
        let range = chunk * CHUNK..bytes.len().min((chunk + 1) * CHUNK);
        let found = digest(&bytes[range.clone()]);
        let wanted = &self.map[HEADER + chunk * DIGEST..][..DIGEST];
        if found != wanted {
            let hex = |digest: &[u8]| digest.iter().map(|byte| format!("{byte:02x}")).collect();
            return Err(Damage { range, found: hex(&found), wanted: hex(wanted) });
        }
        self.checked[chunk / 64].fetch_or(1 << (chunk % 64), Ordering::Relaxed);
        Ok(())
    }
}

/// The file of the digests of the shard `bytes`.
pub(super) fn of(bytes: &[u8]) -> Vec<u8> {
    let mut sums = Vec::with_capacity(HEADER + bytes.len().div_ceil(CHUNK) * DIGEST);
    sums.extend(MAGIC);
    sums.extend((bytes.len() as u64).to_le_bytes());
    sums.extend((CHUNK as u64).to_le_bytes());
    sums.extend(digest(&sums));
    for chunk in bytes.chunks(CHUNK) {
        sums.extend(digest(chunk));
    }
    sums
}

/// Bytes of the digests of a shard of `length` bytes.
pub(super) fn size(length: u64) -> u64 {
    HEADER as u64 + length.div_ceil(CHUNK as u64) * DIGEST as u64
}

fn digest(bytes: &[u8]) -> [u8; DIGEST] {
    let whole = blake3::hash(bytes);
    std::array::from_fn(|i| whole.as_bytes()[i])
}
