//! What an unfinished artefact has already: one entry for each commit, and the fold that a resume starts from.
//!
//! Entries are numbered objects that are created and never replaced. So an entry is there or not, never half; and of two
//! processes that both believe they build an artefact, the second one fails at its first commit.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::engine::claim::rights::rival;
use crate::engine::store::{Artefact, FileEntry, Part};
use crate::error::{Error, Result};
use crate::stage::Warning;

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

/// What is committed: the fold over all entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Committed {
    /// Parts by table, in order.
    pub tables: BTreeMap<String, Vec<Part>>,
    /// Files by output.
    pub files: BTreeMap<String, Vec<FileEntry>>,
    /// The last state, with the parts of every table at that time.
    pub state: Option<(FileEntry, BTreeMap<String, usize>)>,
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
                self.state = Some((file, parts));
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

/// Reads the journal of an artefact: everything committed. Parts that are gone or have another size end the fold there.
///
/// # Errors
/// The store cannot be read.
pub fn fold(artefact: &Artefact) -> Result<Committed> {
    let mut committed = Committed::default();
    let sizes = artefact.sizes()?;
    for name in sizes.keys().filter(|name| name.starts_with("journal/")) {
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
            // Older states are removed once a newer one is committed.
            None if superseded => {}
            _ => break,
        }
        committed.apply(entry);
    }
    if let Some((file, _)) = &committed.state
        && !sizes.contains_key(&file.name)
    {
        return Ok(Committed::default());
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
