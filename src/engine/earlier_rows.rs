//! Rows of earlier results in the store, which a stage copies in place of computing them again.
//!
//! A complete artefact has the keys of its rows as an object of its own. An index of the keys says which part has a row.
//! A part is read whole and checked, so a damaged row is never copied.
//!
//! Rows of unfinished artefacts are not copied: sources are compared again at the end of a stage, so until then a key may
//! belong to other bytes than those that were read.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use az::SaturatingAs;

use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_stage::{EarlierPart, EarlierRows, FoundRows, PartKey, RowKey, SharedEarlierRows, Warning};
use pairloom_storage::parquet;
use pairloom_store::key::ArtefactIdentity;
use pairloom_store::{Artefact, FileEntry, Manifest, Part, ROW_KEYS_FOLDER, Store};

/// Bytes of the parts that are kept in memory, so that the blocks of a few threads do not read a part again.
const RECENT_BYTES: usize = 256 << 20;
/// Least number of parts that are kept, of whatever size: the rows of a block lie in two parts or in one.
const MIN_RECENT_PARTS: usize = 2;

/// Finds the rows of `output` in the complete artefacts whose identity is `identity` apart from the settings and inputs
/// `not_of_rows`.
///
/// # Errors
/// The store cannot be read.
pub(super) fn stored_rows(
    store: &Store,
    identity: &ArtefactIdentity,
    output: &str,
    not_of_rows: &[&str],
) -> Result<StoredRows> {
    let wanted = identity.without(not_of_rows);
    let keys = store.complete_artefacts_of(&identity.kind)?;
    let manifests = store.manifests_of(keys.iter().map(|key| (identity.kind.as_str(), key)))?;
    let mut found: Vec<(Artefact, Manifest)> = keys
        .iter()
        .zip(manifests)
        // A manifest that cannot be read is an artefact that the next run builds again.
        .filter_map(|(key, manifest)| Some((store.artefact(&identity.kind, key), manifest?.ok()?)))
        .filter(|(_, manifest)| manifest.identity.without(not_of_rows) == wanted)
        .collect();
    found.sort_by_key(|(_, manifest)| std::cmp::Reverse(manifest.finished));
    let mut rows = StoredRows::default();
    let mut known = BTreeSet::new();
    for (artefact, mut manifest) in found {
        let (Some(file), Some(parts)) = (manifest.row_keys.remove(output), manifest.tables.remove(output)) else {
            continue;
        };
        // Another version of a data set may have the same images in the same order, with other values beside them.
        let file = known.insert(file.digest.clone()).then_some(file);
        rows.add(&artefact, output, file.as_ref(), parts)?;
    }
    Ok(rows)
}

/// Rows of the parts of some tables, by their keys.
#[derive(Debug, Default)]
pub(super) struct StoredRows {
    /// Parts, each with the artefact and the name of its object.
    parts: Vec<(Artefact, String, Part)>,
    /// Part and number in it of each row.
    places: HashMap<RowKey, (u32, u32)>,
    /// Number of the part with each key.
    keyed_parts: HashMap<PartKey, u32>,
    /// Parts that were read last, by their number.
    recent: Mutex<VecDeque<(u32, RecordBatch)>>,
    /// Parts that are damaged.
    damaged: Mutex<BTreeSet<u32>>,
}

impl StoredRows {
    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Handle to the rows; `None` if there are none.
    pub fn shared(self) -> SharedEarlierRows {
        if self.is_empty() { None } else { Some(Arc::new(self)) }
    }

    /// True if there is a row with this key.
    pub fn has(&self, key: RowKey) -> bool {
        self.places.contains_key(&key)
    }

    /// Adds the parts of a table, and its rows if their keys are given. Rows that are known already stay.
    fn add(&mut self, artefact: &Artefact, table: &str, keys: Option<&FileEntry>, parts: Vec<Part>) -> Result<()> {
        let read =
            |file: &FileEntry| artefact.read(&format!("{ROW_KEYS_FOLDER}/{}", file.name), file.bytes, &file.digest);
        let keys = match keys.map(read).transpose() {
            Ok(keys) => keys.unwrap_or_default(),
            // The artefact is now marked: a run that needs it builds it again.
            Err(error) if error.category() == ErrorCategory::Data => return Ok(()),
            Err(error) => return Err(error),
        };
        let (keys, _) = keys.as_chunks::<{ RowKey::BYTES }>();
        let mut keys = keys.iter();
        for part in parts {
            let number = self.parts.len().saturating_as::<u32>();
            for row in 0..part.rows.saturating_as::<u32>() {
                let Some(key) = keys.next() else { break };
                self.places.entry(RowKey::from_bytes(*key)).or_insert((number, row));
            }
            if let Some(key) = &part.key {
                self.keyed_parts.entry(key.clone()).or_insert(number);
            }
            self.parts.push((artefact.clone(), Artefact::part_name(table, part.index), part));
        }
        Ok(())
    }

    fn part(&self, number: u32) -> Result<&(Artefact, String, Part)> {
        let part = self.parts.get(number.saturating_as::<usize>());
        part.ok_or_else(|| Error::internal("a row of a part that is not known"))
    }

    /// Rows of a part; `None` if it is damaged. The first time that this is seen, `warnings` gets a warning.
    fn read(&self, number: u32, warnings: &mut Vec<Warning>) -> Result<Option<RecordBatch>> {
        if let Some((_, batch)) = lock(&self.recent).iter().find(|(known, _)| *known == number) {
            return Ok(Some(batch.clone()));
        }
        if lock(&self.damaged).contains(&number) {
            return Ok(None);
        }
        let (artefact, name, part) = self.part(number)?;
        let whole = artefact.read(name, part.bytes, &part.digest).and_then(parquet::decode_whole);
        match whole {
            Ok(batch) => {
                let mut recent = lock(&self.recent);
                recent.push_back((number, batch.clone()));
                forget_oldest(&mut recent, RECENT_BYTES);
                Ok(Some(batch))
            }
            Err(error) if error.category() == ErrorCategory::Data => {
                if lock(&self.damaged).insert(number) {
                    let message = format!("its rows were computed again: {error}");
                    warnings.push(Warning { subject: "earlier result".to_owned(), message });
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl EarlierRows for StoredRows {
    fn find(&self, keys: &[RowKey]) -> Result<FoundRows> {
        let mut found = FoundRows { rows: vec![None; keys.len()], warnings: Vec::new() };
        let places = keys.iter().enumerate().filter_map(|(at, key)| Some((*self.places.get(key)?, at)));
        let mut places: Vec<((u32, u32), usize)> = places.collect();
        places.sort_unstable();
        for of_part in places.chunk_by(|((one, _), _), ((other, _), _)| one == other) {
            let Some(((number, _), _)) = of_part.first() else { continue };
            let Some(batch) = self.read(*number, &mut found.warnings)? else { continue };
            for ((_, row), at) in of_part {
                let row = (*row).saturating_as::<usize>();
                if row < batch.num_rows() {
                    found.rows[*at] = Some((batch.clone(), row));
                }
            }
        }
        Ok(found)
    }

    fn find_part(&self, key: &PartKey) -> Result<Option<EarlierPart>> {
        let Some(number) = self.keyed_parts.get(key) else { return Ok(None) };
        if lock(&self.damaged).contains(number) {
            return Ok(None);
        }
        let (artefact, name, part) = self.part(*number)?;
        match artefact.read(name, part.bytes, &part.digest) {
            Ok(content) => Ok(Some(EarlierPart { object: artefact.name(name), rows: part.rows, content })),
            // The search for its rows warns.
            Err(error) if error.category() == ErrorCategory::Data => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Drops the oldest parts beyond `bytes`, but keeps [`MIN_RECENT_PARTS`].
fn forget_oldest(recent: &mut VecDeque<(u32, RecordBatch)>, bytes: usize) {
    let mut total: usize = recent.iter().map(|(_, part)| part.get_array_memory_size()).sum();
    while recent.len() > MIN_RECENT_PARTS && total > bytes {
        let Some((_, oldest)) = recent.pop_front() else { break };
        total -= oldest.get_array_memory_size();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    /// A part of 1,000 integers has 8,000 bytes.
    #[test]
    fn recent_parts_are_bounded_by_their_bytes() {
        let part = |number| {
            let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000));
            (number, RecordBatch::try_from_iter([("image_id", ids)]).unwrap())
        };
        for (bytes, kept) in [(100_000, vec![0, 1, 2, 3, 4]), (30_000, vec![2, 3, 4]), (10, vec![3, 4])] {
            let mut recent: VecDeque<_> = (0..5).map(part).collect();
            forget_oldest(&mut recent, bytes);
            assert_eq!(recent.iter().map(|(number, _)| *number).collect::<Vec<u32>>(), kept, "{bytes}");
        }
    }
}
