//! Writers of an artefact: they split rows into parts, publish each part, and record it in the journal. The feed of the
//! artefact announces parts and files to the readers that wait for them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use az::SaturatingAs;
use bytes::Bytes;

use crate::event::{Event, Observer};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_stage::{PartKey, RowKeys, Warning, missing_columns};
use pairloom_storage::parquet;
use pairloom_store::claim::ArtefactClaim;
use pairloom_store::journal::{self, CommittedContent, JournalEntry};
use pairloom_store::{Artefact, BlockDigests, FileEntry, Part, ROW_KEYS_FOLDER};

/// Publishes the objects of an artefact. Each is recorded in the journal before it is announced.
pub(super) struct ArtefactCommitter<'e> {
    /// Name of the stage, for events.
    pub stage: String,
    /// Artefact that is written.
    pub artefact: Artefact,
    /// Claim on the artefact.
    pub claim: &'e ArtefactClaim,
    /// Committed content.
    pub committed: CommittedContent,
    /// Names of the states that were removed.
    pub removed: BTreeSet<String>,
    /// Feed for stages that read the artefact.
    pub feed: Arc<ArtefactFeed>,
    /// Callback for events.
    pub observer: &'e Observer<'e>,
}

/// Number of the rows of a part, and what is known of them.
#[derive(Debug, Default)]
pub(super) struct RowsOfPart {
    pub rows: u64,
    pub warnings: Vec<Warning>,
    pub row_keys: RowKeys,
    /// Key by which later artefacts share the part.
    pub key: Option<PartKey>,
    /// Object of the store that has the content already.
    pub linked_to: Option<String>,
}

impl RowsOfPart {
    /// Rows of which nothing else is known.
    pub fn new(rows: u64) -> Self {
        Self { rows, ..Self::default() }
    }
}

impl ArtefactCommitter<'_> {
    /// Publishes a part of a table.
    pub fn commit_part(&mut self, table: &str, content: Bytes, rows: RowsOfPart) -> Result<()> {
        let RowsOfPart { rows, warnings, row_keys, key, linked_to } = rows;
        let index = self.committed.tables.get(table).map_or(0, Vec::len);
        let (digest, blocks) = (digest(&content), BlockDigests::of(&content));
        let part = Part { index, rows, bytes: content.len() as u64, digest, blocks, key };
        self.claim.publish_linked(&self.artefact, &Artefact::part_name(table, index), content, linked_to.as_deref())?;
        self.append_entry(JournalEntry::Part { table: table.to_owned(), part: part.clone(), warnings, row_keys })?;
        let (stage, table) = (self.stage.clone(), table.to_owned());
        self.feed.publish_part(&table, part.clone());
        (self.observer)(&Event::PartCommitted { stage, table, part: index, rows, bytes: part.bytes });
        Ok(())
    }

    /// Publishes a file of a files output.
    pub fn commit_file(&mut self, output: &str, name: &str, content: Bytes) -> Result<()> {
        let file = FileEntry { name: name.to_owned(), bytes: content.len() as u64, digest: digest(&content) };
        if self.committed.files.get(output).is_some_and(|files| files.contains(&file)) {
            return Ok(());
        }
        self.claim.publish(&self.artefact, &format!("{output}/{name}"), content)?;
        self.append_entry(JournalEntry::File { output: output.to_owned(), file })
    }

    /// Publishes a state, and deletes all states but the `last` most recent ones. The new state always stays.
    pub fn commit_state(&mut self, content: Bytes, warnings: Vec<Warning>, last: usize) -> Result<()> {
        let name = format!("state-{:08}", self.committed.entries);
        let bytes = content.len() as u64;
        let file = FileEntry { name: name.clone(), bytes, digest: digest(&content) };
        self.claim.publish(&self.artefact, &name, content)?;
        self.append_entry(JournalEntry::State { file, warnings })?;
        let keep = self.committed.states.len().saturating_sub(last.max(1));
        for state in &self.committed.states[..keep] {
            if !self.removed.contains(&state.file.name) {
                self.artefact.delete(&state.file.name)?;
                self.removed.insert(state.file.name.clone());
            }
        }
        (self.observer)(&Event::StateSaved { stage: self.stage.clone(), bytes });
        Ok(())
    }

    /// Warning about rows that were computed from the same item as an earlier one, such as copies of an image. Tables of one
    /// artefact have the same items, so the first one with such rows is named.
    pub fn warning_of_duplicates(&self) -> Option<Warning> {
        self.committed.row_keys.iter().find_map(|(table, keys)| {
            let distinct = keys.iter().collect::<HashSet<_>>().len();
            let (all, same) = (keys.len(), keys.len() - distinct);
            let message = format!("{same} of {all} rows are of items with the same bytes as an earlier row");
            (same > 0).then(|| Warning { subject: table.clone(), message })
        })
    }

    /// Publishes the keys of the rows of each table all of whose rows have one.
    pub fn commit_row_keys(&mut self) -> Result<BTreeMap<String, FileEntry>> {
        let mut files = BTreeMap::new();
        for (table, keys) in &self.committed.row_keys {
            let rows = self.committed.tables.get(table).into_iter().flatten().map(|part| part.rows).sum::<u64>();
            if keys.len() as u64 != rows {
                continue;
            }
            let content: Bytes = keys.iter().flat_map(|key| key.to_bytes()).collect();
            let file = FileEntry { name: table.clone(), bytes: content.len() as u64, digest: digest(&content) };
            self.claim.publish(&self.artefact, &format!("{ROW_KEYS_FOLDER}/{table}"), content)?;
            files.insert(table.clone(), file);
        }
        Ok(files)
    }

    fn append_entry(&mut self, entry: JournalEntry) -> Result<()> {
        journal::append(&self.artefact, self.committed.entries, &entry)?;
        self.committed.apply(entry);
        Ok(())
    }
}

fn digest(content: &Bytes) -> String {
    blake3::hash(content).to_hex().to_string()
}

/// Writer of one table output. It buffers rows until a part is full.
pub(super) struct TableWriter {
    table: &'static str,
    declared: SchemaRef,
    part_rows: usize,
    /// Columns with actual list widths, known from the first batch on.
    schema: Option<SchemaRef>,
    /// Number of rows that the stage has written, including rows of earlier runs up to the state that it resumed from.
    position: u64,
    /// Number of rows that earlier runs committed. They are not written again.
    committed: u64,
    buffer: Vec<RecordBatch>,
    buffered: usize,
}

impl TableWriter {
    /// A writer of a table with the `declared` columns. The stage resumes at row `position`, and the store holds
    /// `committed` rows.
    pub fn new(table: &'static str, declared: SchemaRef, part_rows: usize, position: u64, committed: u64) -> Self {
        let buffer = Vec::new();
        Self { table, declared, part_rows: part_rows.max(1), schema: None, position, committed, buffer, buffered: 0 }
    }

    /// Name of the table.
    pub fn table(&self) -> &'static str {
        self.table
    }

    /// Number of rows written so far.
    pub fn rows(&self) -> u64 {
        self.position
    }

    /// Writes rows. Publishes each part that is full.
    pub fn write(&mut self, batch: RecordBatch, committer: &mut ArtefactCommitter<'_>) -> Result<()> {
        self.check(&batch)?;
        let old = self.committed.saturating_sub(self.position).saturating_as::<usize>().min(batch.num_rows());
        self.position += batch.num_rows() as u64;
        let mut rest = batch.slice(old, batch.num_rows() - old);
        while rest.num_rows() > 0 {
            let taken = rest.num_rows().min(self.part_rows - self.buffered);
            self.buffer.push(rest.slice(0, taken));
            self.buffered += taken;
            rest = rest.slice(taken, rest.num_rows() - taken);
            if self.buffered == self.part_rows {
                self.flush(committer)?;
            }
        }
        Ok(())
    }

    /// Publishes the buffered rows as a part.
    pub fn flush(&mut self, committer: &mut ArtefactCommitter<'_>) -> Result<()> {
        let Some(schema) = self.schema.clone().filter(|_| self.buffered > 0) else { return Ok(()) };
        let content = parquet::encode(&schema, &self.buffer)?;
        committer.commit_part(self.table, content, RowsOfPart::new(self.buffered as u64))?;
        self.buffer.clear();
        self.buffered = 0;
        Ok(())
    }

    /// Publishes the last part. A table without rows gets an empty part, so that its columns can be read.
    pub fn finish(&mut self, committer: &mut ArtefactCommitter<'_>) -> Result<()> {
        if self.position < self.committed {
            let (table, got, expected) = (self.table, self.position, self.committed);
            return Err(Error::internal(format!(
                "`{table}` has {got} rows now and had {expected} before the interruption"
            )));
        }
        self.flush(committer)?;
        if !committer.committed.tables.contains_key(self.table) {
            let schema = with_list_width_one(&self.declared);
            committer.commit_part(self.table, parquet::encode(&schema, &[])?, RowsOfPart::new(0))?;
        }
        Ok(())
    }

    /// Counts rows that were committed without this writer (by `map`).
    pub fn count_committed(&mut self, rows: u64) {
        self.position += rows;
        self.committed = self.committed.max(self.position);
    }

    /// Checks that the batch has exactly the declared columns, and the list widths of earlier batches.
    pub fn check(&mut self, batch: &RecordBatch) -> Result<()> {
        let got = batch.schema();
        match &self.schema {
            Some(schema) if *schema == got => return Ok(()),
            Some(schema) => {
                let problems = missing_columns(schema, &got);
                return Err(Error::data(format!("the columns of `{}` changed: {}", self.table, problems.join("; "))));
            }
            None => {}
        }
        let mut problems = missing_columns(&self.declared, &got);
        let names = |schema: &Schema| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        if problems.is_empty() && names(&self.declared) != names(&got) {
            problems.push(format!("columns are {:?}, expected {:?}", names(&got), names(&self.declared)));
        }
        if problems.is_empty() {
            self.schema = Some(got);
            return Ok(());
        }
        Err(Error::internal(format!("the columns of `{}` are wrong: {}", self.table, problems.join("; "))))
    }
}

/// Replaces list width 0, which stands for any width, by 1. In a table without rows every width is correct.
fn with_list_width_one(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| field_with_list_width_one(field));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn field_with_list_width_one(field: &Field) -> Field {
    match field.data_type() {
        DataType::FixedSizeList(item, width) => {
            let list = DataType::FixedSizeList(Arc::new(field_with_list_width_one(item)), (*width).max(1));
            field.clone().with_data_type(list)
        }
        _ => field.clone(),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_tables as tables;

    #[test]
    fn every_table_can_be_written_as_an_empty_part() {
        for table in tables::all() {
            let schema = with_list_width_one(&table.schema());
            assert_eq!(missing_columns(&table.schema(), &schema), Vec::<String>::new(), "{}", table.name);
            let content = parquet::encode(&schema, &[]).unwrap();
            assert_eq!(parquet::schema(&content).unwrap(), schema, "{}", table.name);
        }
    }
}
