//! Byte ranges within a file.

use std::ops::Range;

/// True if two of these ranges share bytes. If none do, the size of a file limits what can be read from it. Sorts them.
pub(super) fn overlap(ranges: &mut [Range<u64>]) -> bool {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    ranges.windows(2).any(|pair| pair[1].start < pair[0].end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_overlap_if_they_share_a_byte() {
        assert!(!overlap(&mut [20..30, 0..10, 10..20, 30..30]));
        assert!(overlap(&mut [20..30, 0..10, 9..12]));
        assert!(overlap(&mut [5..9, 5..9]));
        assert!(!overlap(&mut []));
    }
}
