//! List of known digests of source files: for each file three keys, of its path in the source, of its stamp, and of its
//! content.

use std::collections::HashMap;

use super::sealed::{seal, unseal};
use pairloom_stage::RowKey;

/// Stamp and content of each file, by the key of its path.
pub(super) type KnownDigests = HashMap<RowKey, (RowKey, RowKey)>;

/// Number of bytes of a file.
const RECORD: usize = 3 * RowKey::BYTES;

/// Formats a list of paths, stamps and contents.
pub(super) fn format(files: impl Iterator<Item = [RowKey; 3]>) -> Vec<u8> {
    seal(files.flatten().flat_map(RowKey::to_bytes).collect())
}

/// Parses a list. One that is cut or damaged, or that an older version wrote, is empty: its files are read again.
pub(super) fn parse(content: &[u8]) -> KnownDigests {
    let (records, _) = unseal(content).unwrap_or_default().as_chunks::<RECORD>();
    let keys = records.iter().map(|record| {
        let (keys, _) = record.as_chunks::<{ RowKey::BYTES }>();
        (RowKey::from_bytes(keys[0]), (RowKey::from_bytes(keys[1]), RowKey::from_bytes(keys[2])))
    });
    keys.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_cut_or_damaged_anywhere_is_empty() {
        let [a, b, c] = [b"a", b"b", b"c"].map(|text| RowKey::of(text));
        let list = format([[a, b, c], [b, c, a]].into_iter());
        assert_eq!(parse(&list), [(a, (b, c)), (b, (c, a))].into());
        for length in 0..list.len() {
            assert!(parse(&list[..length]).is_empty(), "{length}");
            let mut damaged = list.clone();
            damaged[length] ^= 1;
            assert!(parse(&damaged).is_empty(), "{length}");
        }
        assert!(parse(b"a\t1\t0123\n").is_empty(), "a list of another form");
        assert!(parse(&format(std::iter::empty())).is_empty());
    }
}
