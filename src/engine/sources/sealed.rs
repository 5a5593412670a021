//! Content with a checksum at its end, by which a cut or damaged object is known.

use blake3::OUT_LEN;

/// Content, then its checksum.
pub(super) fn seal(mut content: Vec<u8>) -> Vec<u8> {
    let checksum = blake3::hash(&content);
    content.extend_from_slice(checksum.as_bytes());
    content
}

/// Content before a checksum; `None` if it is cut or damaged, or was never sealed.
pub(super) fn unseal(sealed: &[u8]) -> Option<&[u8]> {
    let (content, checksum) = sealed.split_last_chunk::<OUT_LEN>()?;
    (blake3::hash(content) == *checksum).then_some(content)
}
