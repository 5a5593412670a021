//! Size to which an LZ4 frame can grow, from the headers of its blocks.
//!
//! The decoders of the Arrow and Parquet libraries write whatever a frame holds, also more than the length that the file
//! states.
//!
//! Format: <https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md>.

/// Largest size of a block that the format allows.
pub(super) const LARGEST_BLOCK: u64 = 4 << 20;

/// Start of a frame.
const MAGIC: [u8; 4] = 0x184D_2204u32.to_le_bytes();
/// Start of a frame of the first version of the format.
const LEGACY_MAGIC: [u8; 4] = 0x184C_2102u32.to_le_bytes();
/// Flag of a block that is not compressed, in its size.
const PLAIN_BLOCK: u32 = 1 << 31;
/// Flag of a checksum after each block.
const BLOCK_CHECKSUM: u8 = 1 << 4;
/// Flag of the size of the content in the header.
const CONTENT_SIZE: u8 = 1 << 3;
/// Flag of a dictionary in the header.
const DICTIONARY: u8 = 1;

/// True for bytes that begin as a frame, of any version.
pub(super) fn is_frame(content: &[u8]) -> bool {
    content.starts_with(&MAGIC) || content.starts_with(&LEGACY_MAGIC)
}

/// Largest number of bytes that a frame can decompress to; `None` for bytes that are no whole frame.
pub(super) fn size_limit(frame: &[u8]) -> Option<u64> {
    let &[flags, block_size] = frame.strip_prefix(&MAGIC)?.first_chunk()?;
    let largest_block: u64 = match (block_size >> 4) & 7 {
        4 => 64 << 10,
        5 => 256 << 10,
        6 => 1 << 20,
        7 => LARGEST_BLOCK,
        _ => return None,
    };
    let has = |flag: u8, bytes: usize| if flags & flag == 0 { 0 } else { bytes };
    // Magic number, flags, block size, what the flags say, and a checksum of the header.
    let mut at = 6 + has(CONTENT_SIZE, 8) + has(DICTIONARY, 4) + 1;
    let mut limit = 0u64;
    loop {
        let size = u32::from_le_bytes(*frame.get(at..)?.first_chunk()?);
        if size == 0 {
            return Some(limit);
        }
        let bytes = size & !PLAIN_BLOCK;
        limit = limit.saturating_add(if size & PLAIN_BLOCK == 0 { largest_block } else { bytes.into() });
        at = at.checked_add(4 + usize::try_from(bytes).ok()? + has(BLOCK_CHECKSUM, 4))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frame with blocks of at most 64 KiB, with checksums of blocks and the size of the content.
    fn frame(blocks: &[(u32, usize)]) -> Vec<u8> {
        let mut frame = MAGIC.to_vec();
        frame.extend([0x40 | BLOCK_CHECKSUM | CONTENT_SIZE, 4 << 4]);
        frame.extend([0; 9]);
        for &(flag, bytes) in blocks {
            frame.extend((flag | u32::try_from(bytes).unwrap()).to_le_bytes());
            frame.extend(vec![7; bytes + 4]);
        }
        frame.extend([0; 4]);
        frame
    }

    #[test]
    fn each_compressed_block_can_grow_to_the_largest_size() {
        assert_eq!(size_limit(&frame(&[])), Some(0));
        assert_eq!(size_limit(&frame(&[(0, 300), (0, 20), (PLAIN_BLOCK, 100)])), Some(2 * 65_536 + 100));
        let whole = frame(&[(0, 300)]);
        for length in 0..whole.len() {
            assert_eq!(size_limit(&whole[..length]), None, "{length}");
        }
        assert_eq!(size_limit(b"no frame at all"), None);
    }
}
