//! List of known digests of source files, by fingerprint: lines of text, and a checksum of them as the last.

use std::collections::HashMap;
use std::fmt::Write as _;

/// Start of the last line.
const END: &str = "end\t";

/// Formats a list of fingerprints and digests.
pub(super) fn format<'d>(known: impl Iterator<Item = (&'d str, &'d str)>) -> String {
    let mut text = String::new();
    for (fingerprint, digest) in known {
        let _ = writeln!(text, "{fingerprint}\t{digest}");
    }
    let checksum = blake3::hash(text.as_bytes()).to_hex();
    text + END + &checksum + "\n"
}

/// Parses a list. One that is cut or damaged, or that an older version wrote, is empty: its files are read again.
pub(super) fn parse(content: &[u8]) -> HashMap<String, String> {
    let whole = || {
        let text = std::str::from_utf8(content).ok()?;
        let (lines, checksum) = text.strip_suffix('\n')?.rsplit_once(END)?;
        (blake3::hash(lines.as_bytes()).to_hex().as_str() == checksum).then_some(lines)
    };
    let lines = whole().unwrap_or_default().lines().filter_map(|line| line.rsplit_once('\t'));
    lines.map(|(fingerprint, digest)| (fingerprint.to_owned(), digest.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_cut_anywhere_is_empty() {
        let list = format([("a\t1", "0123"), ("b\t2", "4567")].into_iter());
        let known = parse(list.as_bytes());
        assert_eq!((known.len(), known["b\t2"].as_str()), (2, "4567"));
        for length in 0..list.len() {
            assert!(parse(&list.as_bytes()[..length]).is_empty(), "{length}");
        }
        assert!(parse(list.replace("4567", "4568").as_bytes()).is_empty());
        assert!(parse(b"a\t1\t0123\n").is_empty(), "a list without a checksum");
        assert_eq!(parse(format(std::iter::empty()).as_bytes()).len(), 0);
    }
}
