//! Rows of earlier results in the store, which a stage copies in place of computing them again.
//!
//! A complete artefact has the keys of its rows as an object of its own. An index of the keys says which part has a row.
//! A part is read whole and checked, so a damaged row is never copied.
//!
//! Rows of unfinished artefacts are not copied: sources are compared again at the end of a stage, so until then a key may
//! belong to other bytes than those that were read.
//!
//! Before a run, the rows that it would compute and those that it would copy are counted without a look at any item.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use az::SaturatingAs;

use crate::sources::{self, SourceContent};
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_stage::plan::{Plan, PlanNode};
use pairloom_stage::{
    CopiedRows, EarlierPart, EarlierRows, FileKeys, FoundRows, InputOrigin, OutputKind, PartKey, RowKey,
    SharedEarlierRows, Stage, TableRef, Warning, input,
};
use pairloom_storage::parquet;
use pairloom_store::key::ArtefactIdentity;
use pairloom_store::{Artefact, FileEntry, Manifest, Part, ROW_KEYS_FOLDER, Store};

/// Bytes of the parts that are kept in memory, so that the blocks of a few threads do not read a part again.
const RECENT_BYTES: usize = 256 << 20;
/// Least number of parts that are kept, of whatever size: the rows of a block lie in two parts or in one.
const MIN_RECENT_PARTS: usize = 2;

/// Finds the rows of `output` in the complete artefacts whose identity is `identity` apart from the settings and inputs
/// `not_of_rows`.
pub(super) fn stored_rows(
    store: &Store,
    identity: &ArtefactIdentity,
    output: &str,
    not_of_rows: &[&str],
) -> Result<StoredRows> {
    let expected = identity.without(not_of_rows);
    let keys = store.complete_artefacts_of(&identity.kind)?;
    let manifests = store.manifests_of(keys.iter().map(|key| (identity.kind.as_str(), key)))?;
    let mut found: Vec<(Artefact, Manifest)> = keys
        .iter()
        .zip(manifests)
        // A manifest that cannot be read is an artefact that the next run builds again.
        .filter_map(|(key, manifest)| Some((store.artefact(&identity.kind, key), manifest?.ok()?)))
        .filter(|(_, manifest)| manifest.identity.without(not_of_rows) == expected)
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
        for same_part in places.chunk_by(|((one, _), _), ((other, _), _)| one == other) {
            let Some(((number, _), _)) = same_part.first() else { continue };
            let Some(batch) = self.read(*number, &mut found.warnings)? else { continue };
            for ((_, row), at) in same_part {
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

/// Knowledge before a run of the rows that it would compute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewRows {
    /// Their number.
    Counted(RowCount),
    /// The stage that writes the items would run first.
    AfterRun {
        /// Name of the stage.
        stage: String,
    },
}

/// Number of rows that a run would compute, and of those that it would copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowCount {
    /// Rows that no earlier result has.
    pub new: u64,
    /// Rows that earlier results have.
    pub known: u64,
    /// Things that were counted in place of rows, which are among them: the stage that says which have rows would run, too.
    pub counted: Option<&'static str>,
}

impl NewRows {
    /// Number of the rows, if it is known.
    #[must_use]
    pub fn count(&self) -> Option<RowCount> {
        match self {
            Self::Counted(count) => Some(*count),
            Self::AfterRun { .. } => None,
        }
    }
}

impl fmt::Display for NewRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counted(RowCount { new: 0, known: 0, counted }) => match counted {
                Some(things) => write!(f, "there are no rows: there are no {things}"),
                None => f.write_str("there are no rows"),
            },
            Self::Counted(RowCount { new, known, counted: Some(things) }) => {
                let all = new + known;
                write!(f, "at most {new} rows are new: earlier results have those of {known} of {all} {things}")
            }
            Self::Counted(RowCount { new: 0, known, counted: None }) => {
                write!(f, "no rows are new: earlier results have all {known}")
            }
            Self::Counted(RowCount { new, known: 0, counted: None }) => {
                write!(f, "all {new} rows are new: earlier results have none of them")
            }
            Self::Counted(RowCount { new, known, counted: None }) => {
                write!(f, "{new} of {} rows are new: earlier results have the others", new + known)
            }
            Self::AfterRun { stage } => write!(
                f,
                "how many rows are new is unknown until `{stage}` has run: those that earlier results have are copied"
            ),
        }
    }
}

/// Counts the rows of a stage that is not complete. `contents` are the sources of the plan so far, and `producer` finds the
/// artefact of a table, with its manifest if it is complete. `None` if no earlier result has rows that the stage may copy.
pub(super) fn count_new_rows<S: Stage>(
    node: &PlanNode<S>,
    identity: &ArtefactIdentity,
    plan: &Plan<S>,
    store: &Store,
    contents: &HashMap<PathBuf, SourceContent>,
    producer: impl Fn(&TableRef) -> Option<(Artefact, Option<Manifest>)>,
) -> Result<Option<NewRows>> {
    let Some(CopiedRows { input: name, output, key_columns, not_of_rows }) = node.stage.copied_rows() else {
        return Ok(None);
    };
    let rows = stored_rows(store, identity, output, not_of_rows)?;
    if rows.is_empty() {
        return Ok(None);
    }
    let count = |keys: &mut dyn Iterator<Item = Option<RowKey>>, counted| {
        let mut count = RowCount { new: 0, known: 0, counted };
        for key in keys {
            let is_known = key.is_some_and(|key| rows.has(key));
            *if is_known { &mut count.known } else { &mut count.new } += 1;
        }
        Some(NewRows::Counted(count))
    };
    let from = match input(&node.stage.inputs(), name)?.origin.clone() {
        InputOrigin::Table { from, .. } => from,
        InputOrigin::Source(source) => {
            let objects = contents.get(source.path()).and_then(|content| content.files.as_ref());
            return Ok(objects.and_then(|objects| {
                count(&mut objects.iter().map(|(_, key)| Some(*key)), Some("objects in the bucket"))
            }));
        }
        InputOrigin::Files { .. } => return Ok(None),
    };
    let Some((artefact, manifest)) = producer(&from) else { return Ok(None) };
    let root = root_of(plan, &from);
    let content = root.as_ref().and_then(|root| contents.get(root));
    let files = match content {
        Some(SourceContent { files: Some(files), .. }) => FileKeys::new(files.iter().copied()),
        Some(SourceContent { files: None, .. }) => {
            root.as_ref().map_or_else(|| Ok(FileKeys::default()), |root| sources::file_keys(store, root))?
        }
        None => FileKeys::default(),
    };
    let Some(manifest) = manifest else {
        return Ok(match content {
            Some(_) => count(&mut files.contents().map(Some), Some("files in the folder")),
            None => Some(NewRows::AfterRun { stage: from.stage().to_owned() }),
        });
    };
    let parts = manifest.tables.get(from.table()).map_or(&[][..], Vec::as_slice);
    let mut keys = Vec::new();
    artefact.read_columns((from.table(), parts), key_columns, |batch| {
        keys.extend(node.stage.item_keys(&batch, &files)?);
        Ok(())
    })?;
    Ok(count(&mut keys.into_iter(), None))
}

/// Folder that paths in a table are relative to.
fn root_of<S: Stage>(plan: &Plan<S>, table: &TableRef) -> Option<PathBuf> {
    let node = plan.stages().iter().find(|node| node.name == table.stage())?;
    let output = node.stage.outputs().into_iter().find(|output| output.name == table.table())?;
    let OutputKind::Table { root: Some(root), .. } = output.kind else { return None };
    match node.stage.inputs().into_iter().find(|input| input.name == root)?.origin {
        InputOrigin::Source(source) => Some(source.path().to_owned()),
        _ => None,
    }
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

    #[test]
    fn counts_are_sentences_for_none_some_and_all() {
        let text = |new, known, counted| NewRows::Counted(RowCount { new, known, counted }).to_string();
        assert_eq!(text(0, 0, None), "there are no rows");
        assert_eq!(text(0, 6, None), "no rows are new: earlier results have all 6");
        assert_eq!(text(6, 0, None), "all 6 rows are new: earlier results have none of them");
        assert_eq!(text(2, 4, None), "2 of 6 rows are new: earlier results have the others");
        let files = Some("files in the folder");
        assert_eq!(text(0, 0, files), "there are no rows: there are no files in the folder");
        let expected = "at most 0 rows are new: earlier results have those of 6 of 6 files in the folder";
        assert_eq!(text(0, 6, files), expected);
    }
}
