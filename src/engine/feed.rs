//! What of an artefact can be read already: told by its writer, awaited by its readers.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::runtime::Cancel;
use crate::store::{FileEntry, Part};

/// The visible parts and files of one artefact of a run.
#[derive(Debug, Default)]
pub struct Feed {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    tables: BTreeMap<String, Vec<Part>>,
    files: BTreeMap<String, Vec<FileEntry>>,
    end: Option<End>,
}

/// How an artefact ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Complete,
    Failed,
}

impl Feed {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of one more part of a table.
    pub fn part(&self, table: &str, part: Part) {
        self.lock().tables.entry(table.to_owned()).or_default().push(part);
        self.changed.notify_all();
    }

    /// Tells that everything is there: these tables and files.
    pub fn complete(&self, tables: BTreeMap<String, Vec<Part>>, files: BTreeMap<String, Vec<FileEntry>>) {
        *self.lock() = State { tables, files, end: Some(End::Complete) };
        self.changed.notify_all();
    }

    /// Tells that nothing more will come.
    pub fn fail(&self) {
        self.lock().end.get_or_insert(End::Failed);
        self.changed.notify_all();
    }

    /// The `index`-th part of a table, waiting for it; `None` when the table has no more parts.
    /// Calls `waiting` once if it has to wait.
    ///
    /// # Errors
    /// The run was cancelled, or the producer failed (then the producer's error is the one that counts).
    pub fn next(&self, table: &str, index: usize, cancel: &Cancel, waiting: &mut dyn FnMut()) -> Result<Option<Part>> {
        let mut waited = false;
        let mut state = self.lock();
        loop {
            if let Some(part) = state.tables.get(table).and_then(|parts| parts.get(index)) {
                return Ok(Some(part.clone()));
            }
            match state.end {
                Some(End::Complete) => return Ok(None),
                Some(End::Failed) => return Err(Error::interrupted()),
                None => {}
            }
            state = self.pause(state, cancel, &mut waited, waiting)?;
        }
    }

    /// The files of an output, waiting until the artefact is complete.
    ///
    /// # Errors
    /// As [`Feed::next`].
    pub fn files(&self, output: &str, cancel: &Cancel, waiting: &mut dyn FnMut()) -> Result<Vec<FileEntry>> {
        let mut waited = false;
        let mut state = self.lock();
        loop {
            match state.end {
                Some(End::Complete) => return Ok(state.files.get(output).cloned().unwrap_or_default()),
                Some(End::Failed) => return Err(Error::interrupted()),
                None => state = self.pause(state, cancel, &mut waited, waiting)?,
            }
        }
    }

    /// Rows of a table, if it is complete.
    pub fn total_rows(&self, table: &str) -> Option<u64> {
        let state = self.lock();
        (state.end == Some(End::Complete))
            .then(|| state.tables.get(table).map_or(0, |parts| parts.iter().map(|part| part.rows).sum()))
    }

    fn pause<'s>(
        &'s self,
        state: MutexGuard<'s, State>,
        cancel: &Cancel,
        waited: &mut bool,
        waiting: &mut dyn FnMut(),
    ) -> Result<MutexGuard<'s, State>> {
        cancel.proceed()?;
        if !std::mem::replace(waited, true) {
            waiting();
        }
        // Short, so that a cancellation is seen soon.
        let (state, _) =
            self.changed.wait_timeout(state, Duration::from_millis(50)).unwrap_or_else(PoisonError::into_inner);
        Ok(state)
    }
}
