//! Keys of rows and parts, by which a later result copies rows in place of computing them, and shares whole parts.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Warning;
use pairloom_base::error::Result;

/// Digest of the item that a row is computed from, such as the bytes of an image: the first half of its BLAKE3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowKey(u128);

impl RowKey {
    /// Number of bytes.
    pub const BYTES: usize = size_of::<u128>();

    /// Key of an item with this content.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        Self::of_hash(&blake3::hash(content))
    }

    /// Key of an item whose content has this hash.
    #[must_use]
    pub fn of_hash(digest: &blake3::Hash) -> Self {
        Self(digest.as_bytes()[..Self::BYTES].iter().fold(0, |key, &byte| (key << 8) | u128::from(byte)))
    }

    /// Key with these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// Key of an item whose content has this BLAKE3 digest in hexadecimal digits; `None` for other texts.
    #[must_use]
    pub fn of_digest(digest: &str) -> Option<Self> {
        Self::parse(digest.get(..2 * Self::BYTES)?)
    }

    /// Bytes of the key.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0.to_be_bytes()
    }

    /// Key from 32 hexadecimal digits; `None` for other texts.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_key = text.len() == 2 * Self::BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_key.then(|| u128::from_str_radix(text, 16).ok().map(Self)).flatten()
    }
}

/// Key of an object in a bucket: a digest of the URL of the source, the name below it and the stamp of the content.
#[must_use]
pub fn object_key(url: &str, name: &str, stamp: &[u8]) -> RowKey {
    let [url, name] = [url, name].map(|text| RowKey::of(text.as_bytes()).to_bytes());
    RowKey::of(&[url.as_slice(), name.as_slice(), stamp].concat())
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Keys of consecutive rows. As text, 32 hexadecimal digits each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct RowKeys(pub Vec<RowKey>);

impl From<RowKeys> for String {
    fn from(keys: RowKeys) -> Self {
        keys.0.iter().map(ToString::to_string).collect()
    }
}

impl From<String> for RowKeys {
    /// Keys of a text. One that is damaged has no keys: its rows are not copied.
    fn from(text: String) -> Self {
        let digits = text.as_bytes().chunks(2 * RowKey::BYTES);
        let keys = digits.map(|digits| std::str::from_utf8(digits).ok().and_then(RowKey::parse));
        Self(keys.collect::<Option<_>>().unwrap_or_default())
    }
}

/// Key of a part of a table, as text: a digest of the items of its rows, and of the values that the rows take over from
/// them, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartKey(String);

impl PartKey {
    /// Key of a part whose rows have these keys, identifiers and texts; `None` if a row has no key.
    #[must_use]
    pub fn of<'t, const TEXTS: usize>(
        rows: impl Iterator<Item = (Option<RowKey>, i64, [&'t str; TEXTS])>,
    ) -> Option<Self> {
        let mut hasher = blake3::Hasher::new();
        for (key, identifier, texts) in rows {
            hasher.update(&key?.to_bytes());
            hasher.update(&identifier.to_le_bytes());
            for text in texts {
                hasher.update(&(text.len() as u64).to_le_bytes());
                hasher.update(text.as_bytes());
            }
        }
        Some(Self(RowKey::of_hash(&hasher.finalize()).to_string()))
    }
}

/// Part of an earlier result, which was read and is not damaged.
#[derive(Debug, Clone)]
pub struct EarlierPart {
    /// Name of its object in the store.
    pub object: String,
    /// Number of rows.
    pub rows: u64,
    /// Bytes of the object.
    pub content: Bytes,
}

/// Keys of the files of a folder, by their paths in it.
#[derive(Debug, Default)]
pub struct FileKeys(HashMap<RowKey, RowKey>);

impl FileKeys {
    /// Keys of files, each after the key of its path.
    #[must_use]
    pub fn new(files: impl Iterator<Item = (RowKey, RowKey)>) -> Self {
        Self(files.collect())
    }

    /// Key of the file at a path; `None` if it is not known without reading the file.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<RowKey> {
        self.0.get(&RowKey::of(path.as_bytes())).copied()
    }

    /// Keys of all files, in any order.
    pub fn contents(&self) -> impl Iterator<Item = RowKey> + '_ {
        self.0.values().copied()
    }
}

/// Rows of a stage that are copied from earlier results.
#[derive(Debug, Clone, Copy)]
pub struct CopiedRows {
    /// Input with the items of the rows: a table, or a source in a bucket, whose objects they are.
    pub input: &'static str,
    /// Table whose rows are copied.
    pub output: &'static str,
    /// Columns of an input table that the keys of its items are computed from; none of a source.
    pub key_columns: &'static [&'static str],
    /// Settings and inputs on which no row depends.
    pub not_of_rows: &'static [&'static str],
}

/// Rows of earlier results, by their keys.
pub trait EarlierRows: fmt::Debug + Send + Sync {
    /// Finds a row for each key. A row that is damaged is not found, and a warning says so.
    fn find(&self, keys: &[RowKey]) -> Result<FoundRows>;

    /// Finds the part with this key; `None` if there is none that is not damaged.
    fn find_part(&self, key: &PartKey) -> Result<Option<EarlierPart>>;
}

/// Rows of earlier results for some keys.
#[derive(Debug, Default)]
pub struct FoundRows {
    /// For each key, rows of an earlier result and the number of the right one among them.
    pub rows: Vec<Option<(RecordBatch, usize)>>,
    /// Warnings about rows that are damaged.
    pub warnings: Vec<Warning>,
}

/// Handle to rows of earlier results; `None` if there are none.
pub type SharedEarlierRows = Option<Arc<dyn EarlierRows>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_first_half_of_blake3_and_survive_as_text() {
        // The digest of no bytes that the authors of BLAKE3 publish.
        let empty = RowKey::of(b"");
        assert_eq!(empty.to_string(), "af1349b9f5f9a1a6a0404dea36dcc949");
        assert_eq!(RowKey::parse(&empty.to_string()), Some(empty));
        assert_eq!(RowKey::from_bytes(empty.to_bytes()), empty);
        for text in ["", "af13", "+f1349b9f5f9a1a6a0404dea36dcc949", "xf1349b9f5f9a1a6a0404dea36dcc949"] {
            assert_eq!(RowKey::parse(text), None, "{text}");
        }
        let keys = RowKeys(vec![empty, RowKey::of(b"a")]);
        let text = serde_json::to_string(&keys).unwrap();
        assert_eq!(serde_json::from_str::<RowKeys>(&text).unwrap(), keys);
        assert_eq!(RowKeys::from("af13é".repeat(9)), RowKeys::default());
        let part_key = |rows: &[(Option<RowKey>, i64, [&str; 2])]| PartKey::of(rows.iter().copied());
        let rows = [(Some(empty), 7, ["train", "a"]), (Some(empty), 8, ["test", ""])];
        let keys = [
            part_key(&rows),
            part_key(&[rows[1], rows[0]]),
            part_key(&rows[..1]),
            part_key(&[(Some(empty), 7, ["traina", ""]), rows[1]]),
            part_key(&[(Some(RowKey::of(b"a")), 7, rows[0].2), rows[1]]),
            part_key(&[(Some(empty), 9, rows[0].2), rows[1]]),
        ];
        assert!(keys.iter().all(Option::is_some));
        assert_eq!(keys.iter().collect::<std::collections::HashSet<_>>().len(), keys.len(), "order, rows and values");
        assert_eq!(part_key(&[rows[0], (None, 8, rows[1].2)]), None);
        let files = FileKeys::new([(RowKey::of(b"a/b.jpg"), empty)].into_iter());
        assert_eq!((files.get("a/b.jpg"), files.get("b.jpg")), (Some(empty), None));
    }
}
