//! What an unfinished artefact has already: one entry for each commit, and the fold that a resume starts from.
//!
//! Entries are numbered objects that are created and never replaced. So an entry is there or not, never half; and of two
//! processes that both believe they build an artefact, the second one fails at its first commit.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::stage::Warning;
use crate::store::claim::rights::rival;
use crate::store::{Artefact, FileEntry, Part};

/// One commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A part of a table was published.
    Part {
        /// The table.
        table: String,
        /// The part.
        part: Part,
        /// What a person should know of its rows, if they are not made again on a resume (`map`).
        warnings: Vec<Warning>,
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
        /// Name of the object that holds it.
        file: FileEntry,
        /// Warnings given since the last state.
        warnings: Vec<Warning>,
    },
}

/// A state that a stage saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The object that holds it.
    pub file: FileEntry,
    /// Parts of every table at that time.
    pub parts: BTreeMap<String, usize>,
    /// Entries before it.
    entries: usize,
}

/// What is committed: the fold over all entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Committed {
    /// Parts by table, in order.
    pub tables: BTreeMap<String, Vec<Part>>,
    /// Files by output.
    pub files: BTreeMap<String, Vec<FileEntry>>,
    /// States, the last one at the end.
    pub states: Vec<State>,
    /// Warnings so far.
    pub warnings: Vec<Warning>,
    /// Entries so far.
    pub entries: usize,
}

impl Committed {
    /// Takes one more entry in.
    pub fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Part { table, part, warnings } => {
                self.tables.entry(table).or_default().push(part);
                self.warnings.extend(warnings);
            }
            Entry::File { output, file } => {
                let files = self.files.entry(output).or_default();
                files.retain(|other| other.name != file.name);
                files.push(file);
            }
            Entry::State { file, warnings } => {
                let parts = self.tables.iter().map(|(table, parts)| (table.clone(), parts.len())).collect();
                self.states.push(State { file, parts, entries: self.entries });
                self.warnings.extend(warnings);
            }
        }
        self.entries += 1;
    }

    /// Rows committed of all tables.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.tables.values().flatten().map(|part| part.rows).sum()
    }
}

/// Reads the journal of an artefact: everything committed. Parts that are gone or have another size end the fold there, and
/// so does a last state that is gone: what was committed before an earlier state that is there still counts.
///
/// # Errors
/// The store cannot be read.
pub fn fold(artefact: &Artefact) -> Result<Committed> {
    let all = fold_until(artefact, usize::MAX)?;
    let there = |state: &&State| Ok::<_, Error>(artefact.size(&state.file.name)? == Some(state.file.bytes));
    let mut gone = None;
    for state in all.states.iter().rev() {
        if there(&state)? {
            break;
        }
        gone = Some(state.entries);
    }
    match gone {
        Some(entries) => fold_until(artefact, entries),
        None => Ok(all),
    }
}

/// As [`fold`], for whoever goes on from it: also reads the last state, and passes over one that is damaged. Says so.
///
/// # Errors
/// The store cannot be read.
pub fn fold_sound(artefact: &Artefact) -> Result<(Committed, Vec<String>)> {
    let mut committed = fold(artefact)?;
    let mut passed = Vec::new();
    while let Some(state) = committed.states.last() {
        match artefact.get(&state.file.name)? {
            Some(content) if blake3::hash(&content).to_hex().as_str() == state.file.digest => break,
            Some(_) => passed.push(format!(
                "`{}` is damaged (another digest); going on from what was saved before it",
                state.file.name
            )),
            // An older one, which was removed when there were enough.
            None => {}
        }
        committed = fold_until(artefact, state.entries)?;
    }
    Ok((committed, passed))
}

/// The fold over the first `most` entries.
fn fold_until(artefact: &Artefact, most: usize) -> Result<Committed> {
    let mut committed = Committed::default();
    let sizes = artefact.sizes()?;
    for name in sizes.keys().filter(|name| name.starts_with("journal/")).take(most) {
        if *name != entry_name(committed.entries) {
            break;
        }
        let Some(content) = artefact.get(name)? else { break };
        let Ok(entry) = serde_json::from_slice::<Entry>(&content) else { break };
        let (object, bytes) = match &entry {
            Entry::Part { table, part, .. } => (Artefact::part_name(table, part.index), part.bytes),
            Entry::File { output, file } => (format!("{output}/{}", file.name), file.bytes),
            Entry::State { file, .. } => (file.name.clone(), file.bytes),
        };
        let superseded = matches!(entry, Entry::State { .. });
        match sizes.get(&object) {
            Some(got) if *got == bytes => {}
            // Older states are removed once newer ones are committed.
            _ if superseded => {}
            _ => break,
        }
        committed.apply(entry);
    }
    Ok(committed)
}

/// Removes every entry from the `from`-th on.
///
/// # Errors
/// The store cannot be written.
pub fn cut(artefact: &Artefact, from: usize) -> Result<()> {
    let first = entry_name(from);
    // The last one first: a crash in between leaves a shorter journal, not one with a hole.
    for name in artefact.list("journal")?.iter().rev().take_while(|name| **name >= first) {
        artefact.delete(name)?;
    }
    Ok(())
}

/// Appends an entry at place `index`.
///
/// # Errors
/// The store cannot be written, or another process has written this entry.
pub fn append(artefact: &Artefact, index: usize, entry: &Entry) -> Result<()> {
    let content = serde_json::to_vec(entry).map_err(|error| Error::internal(error.to_string()))?;
    if artefact.create(&entry_name(index), Bytes::from(content))? {
        return Ok(());
    }
    Err(rival(artefact))
}

fn entry_name(index: usize) -> String {
    format!("journal/{index:08}.json")
}
