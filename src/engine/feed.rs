//! Feed of an artefact: its writer announces parts and files, and readers wait for them.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_store::{FileEntry, Part};

/// Parts and files of an artefact that can be read already.
#[derive(Debug, Default)]
pub struct ArtefactFeed {
    state: Mutex<FeedState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct FeedState {
    tables: BTreeMap<String, Vec<Part>>,
    files: BTreeMap<String, Vec<FileEntry>>,
    end: Option<FeedEnd>,
}

/// Final state of an artefact in this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FeedEnd {
    Complete,
    Failed,
}

impl ArtefactFeed {
    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces the next part of a table.
    pub fn publish_part(&self, table: &str, part: Part) {
        self.lock().tables.entry(table.to_owned()).or_default().push(part);
        self.changed.notify_all();
    }

    /// Announces that the artefact is complete, with these tables and files.
    pub fn complete(&self, tables: BTreeMap<String, Vec<Part>>, files: BTreeMap<String, Vec<FileEntry>>) {
        *self.lock() = FeedState { tables, files, end: Some(FeedEnd::Complete) };
        self.changed.notify_all();
    }

    /// Announces that the producer failed: nothing more will follow.
    pub fn fail(&self) {
        self.lock().end.get_or_insert(FeedEnd::Failed);
        self.changed.notify_all();
    }

    /// Returns part number `index` of a table, waiting until it is published; `None` if the table has no more parts.
    /// Calls `waiting` once if it has to wait.
    ///
    /// # Errors
    /// An interruption if the run was cancelled or the producer failed. The producer reports its own error.
    pub fn wait_for_part(
        &self,
        table: &str,
        index: usize,
        cancel: &CancelToken,
        waiting: &mut dyn FnMut(),
    ) -> Result<Option<Part>> {
        let mut waited = false;
        let mut state = self.lock();
        loop {
            if let Some(part) = state.tables.get(table).and_then(|parts| parts.get(index)) {
                return Ok(Some(part.clone()));
            }
            match state.end {
                Some(FeedEnd::Complete) => return Ok(None),
                Some(FeedEnd::Failed) => return Err(Error::interrupted()),
                None => {}
            }
            state = self.wait_for_change(state, cancel, &mut waited, waiting)?;
        }
    }

    /// Returns the files of an output, waiting until the artefact is complete.
    ///
    /// # Errors
    /// Same as [`ArtefactFeed::wait_for_part`].
    pub fn wait_for_files(
        &self,
        output: &str,
        cancel: &CancelToken,
        waiting: &mut dyn FnMut(),
    ) -> Result<Vec<FileEntry>> {
        let mut waited = false;
        let mut state = self.lock();
        loop {
            match state.end {
                Some(FeedEnd::Complete) => return Ok(state.files.get(output).cloned().unwrap_or_default()),
                Some(FeedEnd::Failed) => return Err(Error::interrupted()),
                None => state = self.wait_for_change(state, cancel, &mut waited, waiting)?,
            }
        }
    }

    /// Number of rows of a table, if the artefact is complete.
    pub fn total_rows(&self, table: &str) -> Option<u64> {
        let state = self.lock();
        (state.end == Some(FeedEnd::Complete))
            .then(|| state.tables.get(table).map_or(0, |parts| parts.iter().map(|part| part.rows).sum()))
    }

    fn wait_for_change<'s>(
        &'s self,
        state: MutexGuard<'s, FeedState>,
        cancel: &CancelToken,
        waited: &mut bool,
        waiting: &mut dyn FnMut(),
    ) -> Result<MutexGuard<'s, FeedState>> {
        cancel.check()?;
        if !std::mem::replace(waited, true) {
            waiting();
        }
        // The timeout is short, so that a cancellation is noticed soon.
        let (state, _) =
            self.changed.wait_timeout(state, Duration::from_millis(50)).unwrap_or_else(PoisonError::into_inner);
        Ok(state)
    }
}
