//! Sums of numbers that are stored as packed differences, without storing them: a few bytes can stand for any count.
//!
//! Format: <https://github.com/apache/parquet-format/blob/master/Encodings.md#DELTAENC>.

use super::varint::take_varint;

/// Lengths of texts: the largest, and their sum.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct LengthSums {
    pub(super) largest: u64,
    pub(super) sum: u64,
}

impl LengthSums {
    /// Adds a length of 32 bits; `None` if it is negative.
    fn add(&mut self, length: u32) -> Option<()> {
        if length > i32::MAX.cast_unsigned() {
            return None;
        }
        self.largest = self.largest.max(length.into());
        self.sum += u64::from(length);
        Some(())
    }
}

/// Sums the lengths at the start of `bytes`, which then begins after them. `None` for other bytes, or for more than
/// `most` lengths.
pub(super) fn take_lengths(bytes: &mut &[u8], most: u64) -> Option<LengthSums> {
    let block = take_varint(bytes)?;
    let parts = take_varint(bytes)?;
    let mut left = take_varint(bytes)?;
    // Arithmetic is that of 32 bits, with overflow, as in the library.
    let mut value = take_difference(bytes)?;
    let mut sums = LengthSums::default();
    if left > most || parts == 0 || !block.is_multiple_of(parts) {
        return None;
    }
    if left == 0 {
        return Some(sums);
    }
    let part = block / parts;
    sums.add(value)?;
    left -= 1;
    while left > 0 {
        let least = take_difference(bytes)?;
        let widths = bytes.split_off(..usize::try_from(parts).ok()?)?;
        for &width in widths {
            if left == 0 {
                break;
            }
            let packed_bytes = part.checked_mul(width.into())?.div_ceil(8);
            let packed = bytes.split_off(..usize::try_from(packed_bytes).ok()?)?;
            if width > 64 || part == 0 {
                return None;
            }
            for place in 0..part.min(left) {
                let first = usize::try_from(place).ok()? * usize::from(width);
                // Bits above the 32nd do not change the sum.
                let packed_value = (0..usize::from(width).min(32))
                    .map(|bit| first + bit)
                    .enumerate()
                    .fold(0u32, |number, (bit, at)| number | u32::from(packed[at / 8] >> (at % 8) & 1) << bit);
                value = value.wrapping_add(least).wrapping_add(packed_value);
                sums.add(value)?;
            }
            left -= part.min(left);
        }
    }
    Some(sums)
}

/// Takes a signed number, and keeps its lowest 32 bits.
fn take_difference(bytes: &mut &[u8]) -> Option<u32> {
    let number = take_varint(bytes)?;
    let signed = (number >> 1) ^ (number & 1).wrapping_neg();
    u32::try_from(signed & u64::from(u32::MAX)).ok()
}
