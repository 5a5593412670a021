//! Writes an artefact: cuts rows into parts, publishes each part, and records it.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use az::SaturatingAs;
use bytes::Bytes;

use crate::engine::event::{Event, Observer};
use crate::engine::feed::Feed;
use crate::error::{Error, Result};
use crate::io::parquet;
use crate::stage::{Warning, missing_columns};
use crate::store::claim::Claim;
use crate::store::journal::{self, Committed, Entry};
use crate::store::{Artefact, FileEntry, Part};

/// Publishes objects of one artefact, and records each in the journal before anybody hears of it.
pub(super) struct Ledger<'e> {
    /// The stage's name, for events.
    pub stage: String,
    /// The artefact.
    pub artefact: Artefact,
    /// The right to build it.
    pub claim: &'e Claim,
    /// What is committed.
    pub committed: Committed,
    /// States that are removed.
    pub removed: BTreeSet<String>,
    /// Who reads along.
    pub feed: Arc<Feed>,
    /// Who is told.
    pub observer: &'e Observer<'e>,
}

impl Ledger<'_> {
    /// Publishes a part of a table.
    pub fn part(&mut self, table: &str, content: Bytes, rows: u64, warnings: Vec<Warning>) -> Result<()> {
        let index = self.committed.tables.get(table).map_or(0, Vec::len);
        let part = Part { index, rows, bytes: content.len() as u64, digest: digest(&content) };
        self.claim.publish(&self.artefact, &Artefact::part_name(table, index), content)?;
        self.record(Entry::Part { table: table.to_owned(), part: part.clone(), warnings })?;
        let (stage, table) = (self.stage.clone(), table.to_owned());
        self.feed.part(&table, part.clone());
        (self.observer)(&Event::PartCommitted { stage, table, part: index, rows, bytes: part.bytes });
        Ok(())
    }

    /// Publishes a file of a files output.
    pub fn file(&mut self, output: &str, name: &str, content: Bytes) -> Result<()> {
        let file = FileEntry { name: name.to_owned(), bytes: content.len() as u64, digest: digest(&content) };
        if self.committed.files.get(output).is_some_and(|files| files.contains(&file)) {
            return Ok(());
        }
        self.claim.publish(&self.artefact, &format!("{output}/{name}"), content)?;
        self.record(Entry::File { output: output.to_owned(), file })
    }

    /// Publishes a state, and removes those before the `last`.
    pub fn state(&mut self, content: Bytes, warnings: Vec<Warning>, last: usize) -> Result<()> {
        let name = format!("state-{:08}", self.committed.entries);
        let bytes = content.len() as u64;
        let file = FileEntry { name: name.clone(), bytes, digest: digest(&content) };
        self.claim.publish(&self.artefact, &name, content)?;
        self.record(Entry::State { file, warnings })?;
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

    fn record(&mut self, entry: Entry) -> Result<()> {
        journal::append(&self.artefact, self.committed.entries, &entry)?;
        self.committed.apply(entry);
        Ok(())
    }
}

fn digest(content: &Bytes) -> String {
    blake3::hash(content).to_hex().to_string()
}

/// The rows of one table output on their way into parts.
pub(super) struct TableWriter {
    table: &'static str,
    declared: SchemaRef,
    part_rows: usize,
    /// Columns with their true widths, from the first batch on.
    schema: Option<SchemaRef>,
    /// Rows that the stage has given, those of earlier runs before its state included.
    position: u64,
    /// Rows that need not be written, because an earlier run committed them.
    committed: u64,
    buffer: Vec<RecordBatch>,
    buffered: usize,
}

impl TableWriter {
    /// A writer of `declared` columns that goes on at row `position`, of which `committed` are in the store.
    pub fn new(table: &'static str, declared: SchemaRef, part_rows: usize, position: u64, committed: u64) -> Self {
        let buffer = Vec::new();
        Self { table, declared, part_rows: part_rows.max(1), schema: None, position, committed, buffer, buffered: 0 }
    }

    /// The table.
    pub fn table(&self) -> &'static str {
        self.table
    }

    /// Rows given so far.
    pub fn rows(&self) -> u64 {
        self.position
    }

    /// Takes rows, and publishes parts that are full.
    pub fn write(&mut self, batch: RecordBatch, ledger: &mut Ledger<'_>) -> Result<()> {
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
                self.cut(ledger)?;
            }
        }
        Ok(())
    }

    /// Publishes what is buffered as a part.
    pub fn cut(&mut self, ledger: &mut Ledger<'_>) -> Result<()> {
        let Some(schema) = self.schema.clone().filter(|_| self.buffered > 0) else { return Ok(()) };
        let content = parquet::encode(&schema, &self.buffer)?;
        ledger.part(self.table, content, self.buffered as u64, vec![])?;
        self.buffer.clear();
        self.buffered = 0;
        Ok(())
    }

    /// Publishes the last part; of a table without rows, an empty one, so that its columns can be read.
    pub fn finish(&mut self, ledger: &mut Ledger<'_>) -> Result<()> {
        if self.position < self.committed {
            let (table, got, wanted) = (self.table, self.position, self.committed);
            return Err(Error::internal(format!(
                "`{table}` has {got} rows now and had {wanted} before the interruption"
            )));
        }
        self.cut(ledger)?;
        if !ledger.committed.tables.contains_key(self.table) {
            let schema = narrow(&self.declared);
            ledger.part(self.table, parquet::encode(&schema, &[])?, 0, vec![])?;
        }
        Ok(())
    }

    /// Counts rows that were published by other means (`map`).
    pub fn passed(&mut self, rows: u64) {
        self.position += rows;
        self.committed = self.committed.max(self.position);
    }

    /// Fails unless the batch has exactly the declared columns, and the widths of the batches before it.
    pub fn check(&mut self, batch: &RecordBatch) -> Result<()> {
        let got = batch.schema();
        match &self.schema {
            Some(schema) if *schema == got => return Ok(()),
            Some(schema) => {
                let problems = missing_columns(schema, &got);
                return Err(Error::data(format!(
                    "rows of `{}` changed their form: {}",
                    self.table,
                    problems.join("; ")
                )));
            }
            None => {}
        }
        let mut problems = missing_columns(&self.declared, &got);
        let names = |schema: &Schema| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        if problems.is_empty() && names(&self.declared) != names(&got) {
            problems.push(format!("columns are {:?}, wanted {:?}", names(&got), names(&self.declared)));
        }
        if problems.is_empty() {
            self.schema = Some(got);
            return Ok(());
        }
        Err(Error::internal(format!("rows of `{}` do not fit: {}", self.table, problems.join("; "))))
    }
}

/// A schema whose lists of any width have width 1: for a table without rows, every width is true.
fn narrow(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| narrow_field(field));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn narrow_field(field: &Field) -> Field {
    match field.data_type() {
        DataType::FixedSizeList(item, width) => {
            let list = DataType::FixedSizeList(Arc::new(narrow_field(item)), (*width).max(1));
            field.clone().with_data_type(list)
        }
        _ => field.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables;

    #[test]
    fn a_table_without_rows_has_a_part_whatever_its_lists_hold() {
        for table in tables::all() {
            let schema = narrow(&table.schema());
            assert_eq!(missing_columns(&table.schema(), &schema), Vec::<String>::new(), "{}", table.name);
            let content = parquet::encode(&schema, &[]).unwrap();
            assert_eq!(parquet::schema(&content).unwrap(), schema, "{}", table.name);
        }
    }
}
