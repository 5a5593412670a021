//! Journal of an unfinished artefact: one entry for each commit. A run that resumes replays it.
//!
//! Entries are numbered objects, which are created and never replaced. So an entry exists as a whole or not at all. If
//! two processes build the same artefact by mistake, the second one fails at its first commit.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::claim::locks::concurrent_builder_error;
use crate::{Artefact, FileEntry, Part, parse_checked, with_checksum};
use pairloom_base::error::{Error, Result};
use pairloom_stage::{RowKey, RowKeys, Warning};

/// Entry of the journal: one commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalEntry {
    /// A part of a table was published.
    Part {
        /// The table.
        table: String,
        /// The part.
        part: Part,
        /// Warnings about its rows, if a resumed run does not compute these again (`map`).
        warnings: Vec<Warning>,
        /// Keys of its rows.
        #[serde(default, skip_serializing_if = "has_no_keys")]
        row_keys: RowKeys,
    },
    /// A file was published.
    File {
        /// The output.
        output: String,
        /// The file.
        file: FileEntry,
    },
    /// The stage saved its state.
    State {
        /// The object that holds the state.
        file: FileEntry,
        /// Warnings since the last state.
        warnings: Vec<Warning>,
    },
}

fn has_no_keys(keys: &RowKeys) -> bool {
    keys.0.is_empty()
}

/// State that a stage saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedState {
    /// The object that holds the state.
    pub file: FileEntry,
    /// Number of parts of each table at that time.
    pub parts: BTreeMap<String, usize>,
    /// Number of journal entries before it.
    entries: usize,
}

/// Committed content of an unfinished artefact: the result of replaying its journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommittedContent {
    /// Parts of each table, in order.
    pub tables: BTreeMap<String, Vec<Part>>,
    /// Files of each files output.
    pub files: BTreeMap<String, Vec<FileEntry>>,
    /// Keys of the rows of each table that has some.
    pub row_keys: BTreeMap<String, Vec<RowKey>>,
    /// Saved states, the most recent last.
    pub states: Vec<SavedState>,
    /// Warnings.
    pub warnings: Vec<Warning>,
    /// Number of journal entries.
    pub entries: usize,
}

impl CommittedContent {
    /// Applies the next entry.
    pub fn apply(&mut self, entry: JournalEntry) {
        match entry {
            JournalEntry::Part { table, part, warnings, row_keys } => {
                if !row_keys.0.is_empty() {
                    self.row_keys.entry(table.clone()).or_default().extend(row_keys.0);
                }
                self.tables.entry(table).or_default().push(part);
                self.warnings.extend(warnings);
            }
            JournalEntry::File { output, file } => {
                let files = self.files.entry(output).or_default();
                files.retain(|other| other.name != file.name);
                files.push(file);
            }
            JournalEntry::State { file, warnings } => {
                let parts = self.tables.iter().map(|(table, parts)| (table.clone(), parts.len())).collect();
                self.states.push(SavedState { file, parts, entries: self.entries });
                self.warnings.extend(warnings);
            }
        }
        self.entries += 1;
    }

    /// Number of committed rows of all tables.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.tables.values().flatten().map(|part| part.rows).sum()
    }
}

/// Replays the journal of an artefact. The replay ends at the first part or file that is missing or has another size.
/// If the most recent states are missing, it ends before the oldest of these.
pub fn replay(artefact: &Artefact) -> Result<CommittedContent> {
    let all = replay_entries(artefact, usize::MAX, ContentCheck::Size)?;
    let exists = |state: &&SavedState| Ok::<_, Error>(artefact.size(&state.file.name)? == Some(state.file.bytes));
    let mut first_missing = None;
    for state in all.states.iter().rev() {
        if exists(&state)? {
            break;
        }
        first_missing = Some(state.entries);
    }
    match first_missing {
        Some(entries) => replay_entries(artefact, entries, ContentCheck::Size),
        None => Ok(all),
    }
}

/// Replays the journal like [`replay`], and also checks the digests of all parts and files, and of the last state. The
/// replay ends before a damaged part or file; damaged states are skipped. Returns a warning for each damage.
pub fn replay_for_resume(artefact: &Artefact) -> Result<(CommittedContent, Vec<String>)> {
    let by_size = replay(artefact)?;
    let mut committed = replay_entries(artefact, by_size.entries, ContentCheck::Digest)?;
    let mut skipped = Vec::new();
    if committed.entries < by_size.entries {
        let (rows, all) = (committed.rows(), by_size.rows());
        skipped.push(format!("a part or file is damaged (its digest differs); resuming after {rows} of {all} rows"));
    }
    while let Some(state) = committed.states.last() {
        match artefact.size(&state.file.name)? {
            Some(_) if artefact.has_digest(&state.file.name, &state.file.digest)? => break,
            Some(_) => skipped.push(format!(
                "`{}` is damaged (its digest differs); resuming from the state before it",
                state.file.name
            )),
            // An older state, which was removed when newer ones were saved.
            None => {}
        }
        committed = replay_entries(artefact, state.entries, ContentCheck::Size)?;
    }
    Ok((committed, skipped))
}

/// Check of the parts and files of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentCheck {
    /// They have the recorded sizes.
    Size,
    /// They have the recorded sizes and digests.
    Digest,
}

/// Replays the first `max_entries` entries, up to the first part or file that fails the check.
fn replay_entries(artefact: &Artefact, max_entries: usize, check: ContentCheck) -> Result<CommittedContent> {
    let mut committed = CommittedContent::default();
    let sizes = artefact.sizes()?;
    for name in sizes.keys().filter(|name| name.starts_with("journal/")).take(max_entries) {
        if *name != entry_name(committed.entries) {
            break;
        }
        let Some(Ok(entry)) = artefact.parsed(name, parse_checked::<JournalEntry>)? else {
            break;
        };
        let content = match &entry {
            JournalEntry::Part { table, part, .. } => {
                Some((Artefact::part_name(table, part.index), part.bytes, &part.digest))
            }
            JournalEntry::File { output, file } => Some((format!("{output}/{}", file.name), file.bytes, &file.digest)),
            // Older states are removed when newer ones are saved.
            JournalEntry::State { .. } => None,
        };
        if let Some((object, bytes, digest)) = content {
            let is_there = sizes.get(&object) == Some(&bytes);
            if !is_there || (check == ContentCheck::Digest && !artefact.has_digest(&object, digest)?) {
                break;
            }
        }
        committed.apply(entry);
    }
    Ok(committed)
}

/// Removes the entries from number `from` on.
pub fn truncate(artefact: &Artefact, from: usize) -> Result<()> {
    let first = entry_name(from);
    // In reverse order: a crash in between leaves a shorter journal, not one with a gap.
    for name in artefact.list("journal")?.iter().rev().take_while(|name| **name >= first) {
        artefact.delete(name)?;
    }
    Ok(())
}

/// Appends an entry, which gets number `index`.
///
/// # Errors
/// The store cannot be written, or another process has written this entry.
pub fn append(artefact: &Artefact, index: usize, entry: &JournalEntry) -> Result<()> {
    let content = Bytes::from(with_checksum(entry)?);
    if artefact.create(&entry_name(index), content)? {
        return Ok(());
    }
    Err(concurrent_builder_error(artefact))
}

fn entry_name(index: usize) -> String {
    format!("journal/{index:08}.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_bit_of_an_entry_is_known_or_changes_nothing() {
        let file = FileEntry { name: "state-00000001".to_owned(), bytes: 9, digest: "ab".to_owned() };
        let entry = JournalEntry::State { file, warnings: vec![] };
        let content = with_checksum(&entry).unwrap();
        let read = |content: &[u8]| parse_checked::<JournalEntry>(content).ok();
        assert_eq!(read(&content).as_ref(), Some(&entry));
        // Entries of older versions have no checksum.
        assert_eq!(read(&serde_json::to_vec(&entry).unwrap()).as_ref(), Some(&entry));
        for bit in 0..8 * content.len() {
            let mut changed = content.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&changed).is_none(), "{bit}: {}", String::from_utf8_lossy(&changed));
        }
    }
}
