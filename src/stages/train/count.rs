//! Counts as tables have them.

/// A count as a number of 64 bits with a sign.
pub(super) fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
