//! Sizes of the texts of a page, and sums of their lengths where these are stored as packed differences: a few bytes can
//! stand for any count, so they are added without storing them.
//!
//! Format: <https://github.com/apache/parquet-format/blob/master/Encodings.md#DELTAENC>.

use az::SaturatingAs;
use parquet::basic::Encoding;

use super::levels::{WINDOW_ROWS, read_runs};
use super::thrift::take_varint;

/// Sizes of the texts that bytes of this encoding give, at most `count`. Texts of a dictionary are counted there. `None`
/// for other bytes.
pub(super) fn text_sizes(mut values: &[u8], encoding: Encoding, count: u64) -> Option<LengthSums> {
    match encoding {
        Encoding::PLAIN => Some(plain_sizes(values, count)),
        Encoding::DELTA_LENGTH_BYTE_ARRAY => take_lengths(&mut values, count),
        // Each text begins with a part of the text before it.
        Encoding::DELTA_BYTE_ARRAY => {
            let shared = take_lengths(&mut values, count)?;
            let own = take_lengths(&mut values, count)?;
            Some(LengthSums { largest: shared.largest + own.largest, sum: shared.sum + own.sum })
        }
        _ => Some(LengthSums::default()),
    }
}

/// Texts of a dictionary or of a page without an encoding, each after its length; `None` for one that is not whole.
fn plain_texts(mut values: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        let length = u32::from_le_bytes(*values.split_off(..4)?.first_chunk()?);
        let text = usize::try_from(length).ok().and_then(|length| values.split_off(..length));
        if text.is_none() {
            values = &[];
        }
        Some(text)
    })
}

/// Sizes of the first `count` texts of a dictionary or of a page without an encoding, up to one that is not whole.
pub(super) fn plain_sizes(values: &[u8], count: u64) -> LengthSums {
    let mut sizes = LengthSums::default();
    for text in plain_texts(values).take(count.saturating_as()).map_while(|text| text) {
        sizes.largest = sizes.largest.max(text.len() as u64);
        sizes.sum += text.len() as u64;
    }
    sizes
}

/// Lengths of the texts of a dictionary.
#[derive(Debug, Default)]
pub(super) struct DictionaryLengths(Vec<u32>);

impl DictionaryLengths {
    /// Lengths of the first `count` texts.
    pub(super) fn new(texts: &[u8], count: u64) -> Self {
        let texts = plain_texts(texts).take(count.saturating_as()).map_while(|text| text);
        Self(texts.map(|text| text.len().saturating_as()).collect())
    }

    /// Bytes of the texts that at most `count` indices stand for: their number of bits, then runs and bit-packed groups.
    pub(super) fn sums(&self, indices: &[u8], count: u64) -> IndexedSums {
        let Some((width, indices)) = indices.split_first() else { return IndexedSums::default() };
        let (mut sum, mut largest, mut block, mut left) = (0u64, 0u64, 0u64, WINDOW_ROWS);
        // Missing values have no index, so the indices may end before. The library refuses those without a text.
        let _ = read_runs(indices, usize::from(*width).min(32), count, |index, times| {
            let length = usize::try_from(index).ok().and_then(|index| self.0.get(index));
            let length = u64::from(length.copied().unwrap_or(0));
            sum = sum.saturating_add(length.saturating_mul(times));
            block = block.saturating_add(length.saturating_mul(times.min(left)));
            largest = largest.max(block);
            if times >= left {
                // Blocks that end within the run have its text only.
                let rest = times - left;
                largest = largest.max(length.saturating_mul(rest.min(WINDOW_ROWS)));
                block = length.saturating_mul(rest % WINDOW_ROWS);
                left = WINDOW_ROWS - rest % WINDOW_ROWS;
            } else {
                left -= times;
            }
        });
        IndexedSums { sum, largest_batch: largest }
    }
}

/// Bytes of the texts of a dictionary that indices stand for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexedSums {
    pub(super) sum: u64,
    /// Most bytes of a block of 8,192 texts. The rows of a batch are such a block, or lie in two if values are missing.
    pub(super) largest_batch: u64,
}

/// True if the first `count` texts of a dictionary or of a page without an encoding are whole and UTF-8.
pub(super) fn plain_is_utf8(values: &[u8], count: u64) -> bool {
    plain_texts(values)
        .take(count.saturating_as())
        .all(|text| text.is_some_and(|text| std::str::from_utf8(text).is_ok()))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Indices of two bits by hand: three in a run, then a group of eight: 0, 1, 2, 0, 1, 2, 0, 1.
    #[test]
    fn texts_of_a_dictionary_are_counted_as_often_as_they_have_an_index() {
        let texts = [&[5u8, 0, 0, 0][..], b"lions", &[0; 4], &[2, 0, 0, 0], b"an"].concat();
        let lengths = DictionaryLengths::new(&texts, 3);
        let indices = [2, 3 << 1, 2, 1 << 1 | 1, 0b00_10_01_00, 0b01_00_10_01];
        let sum = |indices: &[u8], count| lengths.sums(indices, count).sum;
        assert_eq!(sum(&indices, 11), 3 * 2 + 3 * 5 + 2 * 2);
        assert_eq!(sum(&indices, 5), 3 * 2 + 5);
        // Missing values have no index.
        assert_eq!(sum(&indices[..3], 11), 3 * 2);
        assert_eq!(sum(&[0, 7 << 1, 1 << 1 | 1], 20), (7 + 8) * 5);
        assert_eq!(sum(&[2, 1 << 1, 3], 1), 0);
        assert_eq!(sum(&[], 1), 0);
        // 8,000 texts of 5 bytes, 400 of none, and 20,000 of 2: the third block has 2 bytes of each.
        let run = |count: u64, index: u8| {
            let header = [(count << 1 & 0x7f | 0x80), count << 1 >> 7 & 0x7f | 0x80, count << 1 >> 14];
            [&header.map(|byte| byte.to_le_bytes()[0])[..], &[index]].concat()
        };
        let runs = [vec![2], run(8_000, 0), run(400, 1), run(20_000, 2)].concat();
        let wanted = IndexedSums { sum: 40_000 + 40_000, largest_batch: 40_000 };
        assert_eq!(lengths.sums(&runs, 28_400), wanted);
        let runs = [vec![2], run(100, 0), run(20_000, 2)].concat();
        let wanted = IndexedSums { sum: 500 + 40_000, largest_batch: 500 + 2 * 8_092 };
        assert_eq!(lengths.sums(&runs, 20_100), wanted);
    }
}
