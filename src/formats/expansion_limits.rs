//! Limits of what a file may give, by its own size, and the test for byte ranges that overlap: without them the size limits
//! what can be read.

use std::ops::Range;

use pairloom_base::error::{Error, Result};

/// Rows that a file of any size may have.
const MAX_ROWS: u64 = 100_000_000;
/// Rows that a file may have for each of its bytes, if these are more.
const MAX_ROWS_PER_BYTE: u64 = 1_000;
/// Bytes that may come out of a file of any size.
const MAX_BYTES: u64 = 16 << 30;
/// Bytes that may come out of a file for each of its bytes, if these are more.
const MAX_BYTES_PER_BYTE: u64 = 1_000;

/// Rows and bytes that a file has given, with their limits. A forged file of kilobytes could otherwise have rows, or
/// compressed zeros, to keep a reader busy for days.
#[derive(Debug)]
pub(super) struct ExpansionLimits {
    rows: u64,
    bytes: u64,
    max_rows: u64,
    max_bytes: u64,
}

impl ExpansionLimits {
    /// Limits for a file of this size in bytes.
    pub(super) fn of_file(size: u64) -> Self {
        Self {
            rows: 0,
            bytes: 0,
            max_rows: MAX_ROWS.max(size.saturating_mul(MAX_ROWS_PER_BYTE)),
            max_bytes: MAX_BYTES.max(size.saturating_mul(MAX_BYTES_PER_BYTE)),
        }
    }

    /// Adds rows of the file.
    ///
    /// # Errors
    /// There are too many for the size of the file.
    pub(super) fn add_rows(&mut self, rows: u64) -> Result<()> {
        self.rows = self.rows.saturating_add(rows);
        if self.rows <= self.max_rows { Ok(()) } else { Err(too_large(self.max_rows, "rows")) }
    }

    /// Adds bytes that come out of the file.
    ///
    /// # Errors
    /// There are too many for the size of the file.
    pub(super) fn add_bytes(&mut self, bytes: u64) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes <= self.max_bytes { Ok(()) } else { Err(too_large(self.max_bytes, "bytes without compression")) }
    }
}

fn too_large(most: u64, what: &str) -> Error {
    Error::data(format!("it has more than {most} {what}, which is too many for its size"))
        .hint("the file is damaged or made to take for ever")
}

/// True if two of these ranges share bytes. If none do, the size of a file limits what can be read from it. Sorts them.
pub(super) fn overlap(ranges: &mut [Range<u64>]) -> bool {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    ranges.windows(2).any(|pair| pair[1].start < pair[0].end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_have_fixed_limits_and_large_ones_by_their_size() {
        for (size, rows, bytes) in [
            (10, 100_000_000, 17_179_869_184),
            (100_000, 100_000_000, 17_179_869_184),
            (1 << 30, 1_073_741_824_000, 1_073_741_824_000),
        ] {
            let mut expansion = ExpansionLimits::of_file(size);
            expansion.add_rows(1).unwrap();
            expansion.add_rows(rows - 1).unwrap();
            let message = expansion.add_rows(1).unwrap_err().to_string();
            assert_eq!(message, format!("it has more than {rows} rows, which is too many for its size"));
            expansion.add_bytes(bytes).unwrap();
            let message = expansion.add_bytes(u64::MAX).unwrap_err().to_string();
            assert!(message.contains(&format!("more than {bytes} bytes without compression")), "{message}");
        }
    }

    #[test]
    fn ranges_overlap_if_they_share_a_byte() {
        assert!(!overlap(&mut [20..30, 0..10, 10..20, 30..30]));
        assert!(overlap(&mut [20..30, 0..10, 9..12]));
        assert!(overlap(&mut [5..9, 5..9]));
        assert!(!overlap(&mut []));
    }
}
