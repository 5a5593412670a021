//! Parts that the ranks of a stage map together: of n ranks each maps every n-th block.
//!
//! Another rank than 0 writes a mapped block as an object of the artefact. Rank 0 commits all blocks in their order, so
//! the artefact is that of one process. What was written stays for the next run if this one ends early.

use std::time::Duration;

use arrow::array::RecordBatch;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::{CancelToken, ProcessGroup};
use pairloom_stage::{EarlierPart, MapOutput, MappedRows, PartKey, RowKeys, Warning};
use pairloom_storage::parquet;
use pairloom_store::Artefact;

/// Folder of the blocks in the artefact.
const FOLDER: &str = "shared";
/// Pauses between two looks for a block: the first, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

/// Blocks of a table that the ranks of a stage share.
#[derive(Debug, Clone)]
pub(crate) struct SharedParts {
    artefact: Artefact,
    table: String,
    rank: usize,
    world_size: usize,
}

/// Mapped block, encoded as a part.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SharedPart {
    /// Number of rows of the output.
    pub rows: u64,
    pub warnings: Vec<Warning>,
    pub row_keys: RowKeys,
    pub part_key: Option<PartKey>,
    /// Number of rows that were copied from earlier results.
    pub copied: u64,
    /// Encoded rows.
    pub content: Bytes,
    /// Object of the store that has the content already: a part of an earlier result.
    pub object: Option<String>,
}

impl SharedPart {
    /// Encodes a mapped block. Also returns its rows, if they are new.
    ///
    /// # Errors
    /// The rows cannot be encoded, or not all of them have keys.
    pub fn encode(mapped: MapOutput) -> Result<(Option<RecordBatch>, Self)> {
        let MapOutput { rows, warnings, row_keys, part_key, copied } = mapped;
        let (batch, rows, content, object) = match rows {
            MappedRows::New(batch) => {
                let content = parquet::encode(&batch.schema(), std::slice::from_ref(&batch))?;
                let rows = batch.num_rows() as u64;
                (Some(batch), rows, content, None)
            }
            MappedRows::Earlier(EarlierPart { object, rows, content }) => (None, rows, content, Some(object)),
        };
        let keys = row_keys.0.len() as u64;
        if keys > 0 && keys != rows {
            return Err(Error::internal(format!("{keys} keys of {rows} rows")));
        }
        Ok((batch, Self { rows, warnings, row_keys, part_key, copied, content, object }))
    }
}

/// Header of a block in the store.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    rows: u64,
    warnings: Vec<Warning>,
    row_keys: RowKeys,
    part_key: Option<PartKey>,
    copied: u64,
    /// Digest of the encoded rows.
    digest: String,
    /// Object of the store with the encoded rows; `None` if they follow the header.
    object: Option<String>,
}

impl SharedParts {
    /// Blocks of `table`, if there are several ranks.
    pub fn of(artefact: &Artefact, table: &str, group: &ProcessGroup) -> Option<Self> {
        let (artefact, table) = (artefact.clone(), table.to_owned());
        (group.world_size > 1).then(|| Self { artefact, table, rank: group.rank, world_size: group.world_size })
    }

    /// Returns true if this rank maps the block.
    pub fn is_own(&self, block: usize) -> bool {
        block % self.world_size == self.rank
    }

    fn name(&self, block: usize) -> String {
        format!("{FOLDER}/{}/{block:08}", self.table)
    }

    /// Returns true if the block was written already.
    pub fn has(&self, block: usize) -> Result<bool> {
        Ok(self.artefact.size(&self.name(block))?.is_some())
    }

    /// Writes a mapped block.
    pub fn write(&self, block: usize, part: &SharedPart) -> Result<()> {
        let digest = blake3::hash(&part.content).to_hex().to_string();
        let SharedPart { rows, warnings, row_keys, part_key, copied, content, object } = part.clone();
        let follows = if object.is_some() { Bytes::new() } else { content };
        let header = Header { rows, warnings, row_keys, part_key, copied, digest, object };
        let header = serde_json::to_vec(&header).map_err(|error| Error::internal(error.to_string()))?;
        let length = (header.len() as u64).to_le_bytes();
        self.artefact.put(&self.name(block), [&length[..], &header, &follows].concat().into())
    }

    /// Waits for a block of another rank; `None` if it is damaged, or the earlier result that it names is gone.
    ///
    /// # Errors
    /// The wait was cancelled; the store cannot be read.
    pub fn wait(&self, block: usize, cancel: &CancelToken) -> Result<Option<SharedPart>> {
        let mut pause = PAUSES[0];
        loop {
            cancel.check()?;
            if let Some(written) = self.artefact.get(&self.name(block))? {
                return self.parse(&written);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES[1]);
        }
    }

    /// Removes a block that rank 0 has committed.
    pub fn remove(&self, block: usize) -> Result<()> {
        self.artefact.delete(&self.name(block))
    }

    /// Block in the store; `None` if it is damaged, or what it refers to.
    fn parse(&self, written: &Bytes) -> Result<Option<SharedPart>> {
        let Some((header, follows)) = split_header(written) else { return Ok(None) };
        let Header { rows, warnings, row_keys, part_key, copied, digest, object } = header;
        let content = match &object {
            Some(object) => self.artefact.get_object(object)?.unwrap_or_default(),
            None => follows,
        };
        let is_whole = blake3::hash(&content).to_hex().as_str() == digest;
        Ok(is_whole.then_some(SharedPart { rows, warnings, row_keys, part_key, copied, content, object }))
    }
}

/// Header of a block, and what follows it; `None` if the header is damaged.
fn split_header(written: &Bytes) -> Option<(Header, Bytes)> {
    let (length, rest) = written.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (header, follows) = rest.split_at_checked(length)?;
    Some((serde_json::from_slice(header).ok()?, written.slice_ref(follows)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_base::error::ErrorCategory;
    use pairloom_stage::RowKey;
    use pairloom_store::Store;
    use pairloom_store::key::Key;

    #[test]
    fn blocks_arrive_as_they_were_written_and_damage_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let key: Key = serde_json::from_value("00112233445566778899aabbccddeeff".into()).unwrap();
        let artefact = Store::open(folder.path()).unwrap().artefact("toy", &key);
        let group = |rank, world_size| ProcessGroup { rank, world_size, local_rank: rank, rendezvous: None };
        assert!(SharedParts::of(&artefact, "rows", &group(0, 1)).is_none());
        let [first, second] = [0, 1].map(|rank| SharedParts::of(&artefact, "rows", &group(rank, 2)).unwrap());
        assert!(first.is_own(4) && !first.is_own(5) && second.is_own(5));
        let warning = Warning { subject: "a.jpg".to_owned(), message: "odd".to_owned() };
        let (rows, warnings, content) = (1, vec![warning], Bytes::from_static(b"rows"));
        let row_keys = RowKeys(vec![RowKey::of(b"a")]);
        let part_key = PartKey::of([(Some(row_keys.0[0]), 1, [])].into_iter());
        let part = SharedPart { rows, warnings, row_keys, part_key, copied: 1, content, object: None };
        assert!(!first.has(5).unwrap());
        second.write(5, &part).unwrap();
        let cancel = CancelToken::new();
        assert!(first.has(5).unwrap() && first.wait(5, &cancel).unwrap() == Some(part.clone()));
        // A part of an earlier result is not written a second time.
        artefact.put("earlier", part.content.clone()).unwrap();
        let shared = SharedPart { object: Some(artefact.name("earlier")), ..part.clone() };
        second.write(9, &shared).unwrap();
        assert!(first.wait(9, &cancel).unwrap() == Some(shared));
        assert!(!artefact.get("shared/rows/00000009").unwrap().unwrap().ends_with(b"rows"));
        artefact.put("earlier", Bytes::from_static(b"rowz")).unwrap();
        assert!(first.wait(9, &cancel).unwrap().is_none(), "the earlier result is damaged");
        artefact.delete("earlier").unwrap();
        assert!(first.wait(9, &cancel).unwrap().is_none(), "the earlier result is gone");
        artefact.put("shared/rows/00000007", Bytes::from_static(b"\x01\0\0\0\0\0\0\0{")).unwrap();
        assert!(first.wait(7, &cancel).unwrap().is_none(), "it is damaged");
        first.remove(5).unwrap();
        assert!(!first.has(5).unwrap());
        cancel.cancel();
        assert_eq!(first.wait(5, &cancel).unwrap_err().category(), ErrorCategory::Interrupted);
    }
}
