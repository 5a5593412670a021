//! Sizes of the texts of a page.

use parquet::basic::Encoding;

use super::delta::{LengthSums, take_lengths};

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

/// Sizes of the texts of a dictionary or of a page without an encoding, up to the first that is not whole.
pub(super) fn plain_sizes(mut values: &[u8], count: u64) -> LengthSums {
    let mut sizes = LengthSums::default();
    for _ in 0..count {
        let Some((length, rest)) = values.split_first_chunk() else { break };
        let length = u32::from_le_bytes(*length);
        let Some(rest) = usize::try_from(length).ok().and_then(|length| rest.get(length..)) else { break };
        sizes.largest = sizes.largest.max(length.into());
        sizes.sum += u64::from(length);
        values = rest;
    }
    sizes
}

/// True if up to `count` texts, each after its length, are UTF-8.
pub(super) fn plain_is_utf8(mut values: &[u8], count: u64) -> bool {
    for _ in 0..count {
        let Some(length) = values.split_off(..4).and_then(|length| length.first_chunk()) else { return true };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some(text) = values.split_off(..length) else { return false };
        if std::str::from_utf8(text).is_err() {
            return false;
        }
    }
    true
}
