//! Sizes of the texts of a page.

use az::SaturatingAs;
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

/// True if the first `count` texts of a dictionary or of a page without an encoding are whole and UTF-8.
pub(super) fn plain_is_utf8(values: &[u8], count: u64) -> bool {
    plain_texts(values)
        .take(count.saturating_as())
        .all(|text| text.is_some_and(|text| std::str::from_utf8(text).is_ok()))
}
