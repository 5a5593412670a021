//! Reader of a table input. It reads part by part, as the producer commits them.

use std::sync::Arc;

use arrow::array::RecordBatch;
use az::SaturatingAs;

use crate::cache::LazyCache;
use crate::feed::ArtefactFeed;
use pairloom_base::error::Result;
use pairloom_base::runtime::CancelToken;
use pairloom_storage::parquet;
use pairloom_storage::table_shards::{ShardSource, TableShards};
use pairloom_store::{Artefact, Part};

/// Callback at the start of a wait, with the name of the awaited input or resource.
pub(super) type OnWait<'w> = &'w mut dyn FnMut(&str);

/// Cursor over the rows of a table.
pub(super) struct TableReader {
    /// Name for messages and events: `pairs.images`.
    pub name: String,
    /// Artefact of the producer.
    pub artefact: Artefact,
    /// Name of the table in the artefact.
    pub table: String,
    feed: Arc<ArtefactFeed>,
    /// Cancels waiting and reading.
    pub cancel: CancelToken,
    next_part: usize,
    current: Option<parquet::PartBatches>,
    /// Rows to skip before the next row that is returned.
    rows_to_skip: usize,
}

impl TableReader {
    /// A cursor at the first row.
    pub fn new(name: String, artefact: Artefact, table: String, feed: Arc<ArtefactFeed>, cancel: CancelToken) -> Self {
        Self { name, artefact, table, feed, cancel, next_part: 0, current: None, rows_to_skip: 0 }
    }

    /// Moves the cursor back to the first row.
    pub fn rewind(&mut self) {
        self.next_part = 0;
        self.current = None;
        self.rows_to_skip = 0;
    }

    /// Number of rows of the table, if it is complete.
    pub fn total_rows(&self) -> Option<u64> {
        self.feed.total_rows(&self.table)
    }

    /// Waits until the producer has finished and returns all parts. Calls `waiting` if it has to wait.
    pub fn wait_for_parts(&self, waiting: OnWait<'_>) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        while let Some(part) =
            self.feed.wait_for_part(&self.table, parts.len(), &self.cancel, &mut || waiting(&self.name))?
        {
            parts.push(part);
        }
        Ok(parts)
    }

    /// Returns the table, which has these parts, as shards.
    pub fn shards(&self, parts: Vec<Part>, cache: &LazyCache<'_>) -> Result<TableShards> {
        let rows = |part: &Part| part.rows.saturating_as::<usize>();
        let sources = parts.iter().map(|part| ShardSource { digest: part.digest.clone(), rows: rows(part) }).collect();
        let (artefact, table) = (self.artefact.clone(), self.table.clone());
        let read = move |shard: usize| {
            let part = &parts[shard];
            let name = Artefact::part_name(&table, part.index);
            let content = artefact.read(&name, part.bytes, &part.digest)?;
            parquet::decode_whole(content).map_err(|error| error.context(format!("`{}`", artefact.display_path(&name))))
        };
        let cancel = self.cancel.clone();
        Ok(TableShards::new(self.name.clone(), sources, cache.get()?, Box::new(read), Box::new(move || cancel.check())))
    }

    /// Reads the next rows. Calls `waiting` if it has to wait for the producer.
    pub fn read_next(&mut self, waiting: OnWait<'_>) -> Result<Option<RecordBatch>> {
        loop {
            self.cancel.check()?;
            if let Some(reader) = &mut self.current {
                match reader.next() {
                    Some(batch) => {
                        let batch = batch?;
                        let pass = self.rows_to_skip.min(batch.num_rows());
                        self.rows_to_skip -= pass;
                        if pass < batch.num_rows() {
                            return Ok(Some(batch.slice(pass, batch.num_rows() - pass)));
                        }
                    }
                    None => self.current = None,
                }
                continue;
            }
            let waiting = &mut || waiting(&self.name);
            let Some(part) = self.feed.wait_for_part(&self.table, self.next_part, &self.cancel, waiting)? else {
                return Ok(None);
            };
            self.next_part += 1;
            let rows = part.rows.saturating_as::<usize>();
            if self.rows_to_skip >= rows {
                self.rows_to_skip -= rows;
                continue;
            }
            let name = Artefact::part_name(&self.table, part.index);
            let content = self.artefact.read(&name, part.bytes, &part.digest)?;
            let place = self.artefact.display_path(&name);
            self.current = Some(parquet::decode(content).map_err(|error| error.context(format!("`{place}`")))?);
        }
    }

    /// Skips the next `rows` rows, without reading parts that consist of such rows only.
    pub fn skip(&mut self, rows: usize) {
        self.rows_to_skip += rows;
    }
}

/// Splits the rows of a table into blocks of equal size.
pub(super) struct BlockReader<'r> {
    reader: &'r mut TableReader,
    rows: usize,
    rest: Option<RecordBatch>,
}

impl<'r> BlockReader<'r> {
    /// Blocks of `rows` rows; the last one may be shorter.
    pub fn new(reader: &'r mut TableReader, rows: usize) -> Self {
        Self { reader, rows: rows.max(1), rest: None }
    }

    /// Reads the next block.
    pub fn next(&mut self, waiting: OnWait<'_>) -> Result<Option<RecordBatch>> {
        let mut pieces = Vec::new();
        let mut wanted = self.rows;
        while wanted > 0 {
            let batch = match self.rest.take() {
                Some(rest) => rest,
                None => match self.reader.read_next(waiting)? {
                    Some(batch) => batch,
                    None => break,
                },
            };
            let taken = wanted.min(batch.num_rows());
            if taken < batch.num_rows() {
                self.rest = Some(batch.slice(taken, batch.num_rows() - taken));
            }
            wanted -= taken;
            pieces.push(batch.slice(0, taken));
        }
        match pieces.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            [first, ..] => Ok(Some(arrow::compute::concat_batches(first.schema_ref(), &pieces)?)),
        }
    }

    /// Number of rows of the table, if it is complete.
    pub fn total_rows(&self) -> Option<u64> {
        self.reader.total_rows()
    }
}

/// Memory of the rows of a batch in bytes, without other rows in the same buffers.
pub(super) fn batch_bytes(batch: &RecordBatch) -> u64 {
    let columns = batch.columns().iter();
    columns
        .map(|column| {
            column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size()) as u64
        })
        .sum()
}
