//! Digests of the blocks of a part, by which a range of it can be checked without the rest.

use std::ops::Range;

use az::SaturatingAs;
use serde::{Deserialize, Serialize};

/// Bytes of a block; the last one may be shorter.
const BLOCK_BYTES: u64 = 256 << 10;

/// Bytes of the digest of a block, of the 32 of BLAKE3: these suffice to find damage.
const DIGEST_BYTES: usize = 16;

/// Digests of the blocks of a part, in hexadecimal one after another. Empty for a part of one block, whose digest is that
/// of the part, and for parts of older versions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlockDigests(String);

impl BlockDigests {
    /// Digests of the blocks of `content`.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        let block = BLOCK_BYTES.saturating_as::<usize>();
        if content.len() <= block {
            return Self::default();
        }
        Self(content.chunks(block).map(digest).collect())
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Smallest range of whole blocks around `range`, in a part of `bytes` bytes.
    #[must_use]
    pub fn around(range: &Range<u64>, bytes: u64) -> Range<u64> {
        let start = range.start / BLOCK_BYTES * BLOCK_BYTES;
        start..(range.end.div_ceil(BLOCK_BYTES) * BLOCK_BYTES).min(bytes)
    }

    /// Position of the first damaged block of `content`, which are whole blocks from `start` on; `None` if all are sound.
    #[must_use]
    pub fn first_damage(&self, start: u64, content: &[u8]) -> Option<u64> {
        let first = start / BLOCK_BYTES;
        let damaged = content.chunks(BLOCK_BYTES.saturating_as()).zip(first..).find(|(block, number)| {
            let at = (number * 2).saturating_as::<usize>() * DIGEST_BYTES;
            self.0.get(at..at + 2 * DIGEST_BYTES) != Some(&digest(block))
        });
        damaged.map(|(_, number)| number * BLOCK_BYTES)
    }
}

fn digest(block: &[u8]) -> String {
    blake3::hash(block).to_hex()[..2 * DIGEST_BYTES].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_is_found_in_its_block() {
        let mut content: Vec<u8> = (0..700_000u32).map(|i| (i % 251) as u8).collect();
        let digests = BlockDigests::of(&content);
        let bytes = content.len() as u64;
        assert_eq!(digests.0.len(), 3 * 32, "two blocks of 262,144 bytes and a shorter one");
        assert_eq!(digests.first_damage(0, &content), None);
        assert_eq!(BlockDigests::around(&(300_000..300_001), bytes), 262_144..524_288);
        assert_eq!(BlockDigests::around(&(0..699_999), bytes), 0..bytes);
        assert_eq!(BlockDigests::around(&(600_000..700_000), bytes), 524_288..bytes);
        content[600_000] ^= 1;
        assert_eq!(digests.first_damage(262_144, &content[262_144..]), Some(524_288));
        assert_eq!(digests.first_damage(0, &content[..524_288]), None);
        assert_eq!(BlockDigests::of(&content[..262_144]), BlockDigests::default());
    }
}
