//! Digests of the chunks of a shard, verified lazily: damage is found when a chunk is first read.
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
//! A digest is the first 16 bytes of BLAKE3 (<https://github.com/BLAKE3-team/BLAKE3-specs>). The header has its own
//! digest. Digests of chunks need none, since a damaged digest matches no chunk. So opening takes constant time.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::Mmap;

use super::{DIGESTS_FILE, SHARD_FILE};
use pairloom_base::error::{Error, Result};

/// Bytes of a chunk: a few vectors, and enough for BLAKE3 to hash in parallel lanes.
pub(super) const CHUNK: usize = 1 << 14;
const DIGEST: usize = 16;
const HEADER: usize = 40;
const MAGIC: &[u8; 8] = b"PAIRSUMS";

/// Digests of a shard's chunks, and the set of chunks that were verified.
pub(super) struct ChunkDigests {
    map: Mmap,
    /// Bit set of the verified chunks.
    checked: Box<[AtomicU64]>,
}

/// Chunk whose digest does not match.
#[derive(Debug)]
pub(super) struct DigestMismatch {
    pub range: Range<usize>,
    pub found: String,
    pub wanted: String,
}

impl DigestMismatch {
    #[cold]
    pub fn error(&self) -> Error {
        let Self { range, found, wanted } = self;
        Error::data(format!("bytes {} to {} have digest {found}, expected {wanted}: damaged", range.start, range.end))
    }
}

impl ChunkDigests {
    /// Opens the digests in `folder` of a shard of `length` bytes.
    ///
    /// # Errors
    /// The digests are missing or damaged, or belong to a shard of another length.
    pub fn open(folder: &Path, length: u64) -> Result<Self> {
        let path = folder.join(DIGESTS_FILE);
        let shown = path.display();
        let file = File::open(&path).map_err(|error| Error::io("open the digests of the shard", &path, &error))?;
        let found = file.metadata().map_err(|error| Error::io("look at", &path, &error))?.len();
        let damaged = |what: String| Error::data(what).hint("remove the shard: it is built again when needed");
        if found < HEADER as u64 {
            return Err(damaged(format!(
                "digests of a shard have {found} bytes, expected at least {HEADER} in `{shown}`"
            )));
        }
        #[expect(unsafe_code, reason = "a memory map is sound as long as nobody changes the file, which we document")]
        // SAFETY: nobody changes the file while it is mapped, as the documentation demands.
        let map = unsafe { Mmap::map(&file) }.map_err(|error| Error::io("map", &path, &error))?;
        if !map.starts_with(MAGIC) || map[24..HEADER] != digest(&map[..24]) {
            return Err(damaged(format!("digests of a shard have a damaged header in `{shown}`")));
        }
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| map[at + i]));
        let (wanted, chunk) = (number(8), number(16));
        if chunk != CHUNK as u64 {
            return Err(damaged(format!("digests are of chunks of {chunk} bytes, expected {CHUNK}, in `{shown}`")));
        }
        if length != wanted {
            let shard = folder.join(SHARD_FILE);
            return Err(damaged(format!("shard has {length} bytes, expected {wanted}: `{}`", shard.display())));
        }
        if file_size(length) != found {
            return Err(damaged(format!(
                "digests of a shard of {length} bytes have {found} bytes, expected {}, in `{shown}`",
                file_size(length)
            )));
        }
        let chunks = (map.len() - HEADER) / DIGEST;
        let checked = (0..chunks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { map, checked })
    }

    /// Verifies the chunks of `range` that were not verified before.
    #[inline]
    pub fn verify(&self, bytes: &[u8], range: Range<usize>) -> Result<(), DigestMismatch> {
        if range.is_empty() {
            return Ok(());
        }
        for chunk in range.start / CHUNK..=(range.end - 1) / CHUNK {
            // Relaxed suffices: the bit orders no other memory, since the bytes never change.
            if self.checked[chunk / 64].load(Ordering::Relaxed) & (1 << (chunk % 64)) == 0 {
                self.verify_chunk(bytes, chunk)?;
            }
        }
        Ok(())
    }

    #[cold]
    fn verify_chunk(&self, bytes: &[u8], chunk: usize) -> Result<(), DigestMismatch> {
        let range = chunk * CHUNK..bytes.len().min((chunk + 1) * CHUNK);
        let found = digest(&bytes[range.clone()]);
        let wanted = &self.map[HEADER + chunk * DIGEST..][..DIGEST];
        if found != wanted {
            let hex = |digest: &[u8]| digest.iter().map(|byte| format!("{byte:02x}")).collect();
            return Err(DigestMismatch { range, found: hex(&found), wanted: hex(wanted) });
        }
        self.checked[chunk / 64].fetch_or(1 << (chunk % 64), Ordering::Relaxed);
        Ok(())
    }
}

/// Encodes the file of digests of the shard `bytes`.
pub(super) fn encode(bytes: &[u8]) -> Vec<u8> {
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

/// Size in bytes of the file of digests of a shard of `length` bytes.
pub(super) fn file_size(length: u64) -> u64 {
    HEADER as u64 + length.div_ceil(CHUNK as u64) * DIGEST as u64
}

fn digest(bytes: &[u8]) -> [u8; DIGEST] {
    let whole = blake3::hash(bytes);
    std::array::from_fn(|i| whole.as_bytes()[i])
}
