//! Reads a table input: part by part, as its producer commits them.

use std::sync::Arc;

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use arrow::array::RecordBatch;
use az::SaturatingAs;

use crate::engine::cache::LazyCache;
use crate::engine::feed::Feed;
use crate::error::Result;
use crate::io::parquet;
use crate::io::shards::{Shards, Source};
use crate::runtime::Cancel;
use crate::store::{Artefact, Part};

/// Called with the name of what is waited for, as a wait begins.
pub(super) type Waiting<'w> = &'w mut dyn FnMut(&str);

/// A cursor over the rows of a table.
pub(super) struct TableReader {
    /// What the input is called where people look: `pairs.images`.
    pub name: String,
    /// The artefact of the producer.
    pub artefact: Artefact,
    /// The table, as the producer calls it.
    pub table: String,
    feed: Arc<Feed>,
    /// Ends waiting and reading.
    pub cancel: Cancel,
    next_part: usize,
    current: Option<ParquetRecordBatchReader>,
    /// Rows of `current` that are to be passed over.
    passed: usize,
}

impl TableReader {
    /// A cursor before the first row.
    pub fn new(name: String, artefact: Artefact, table: String, feed: Arc<Feed>, cancel: Cancel) -> Self {
        Self { name, artefact, table, feed, cancel, next_part: 0, current: None, passed: 0 }
    }

    /// Back before the first row.
    pub fn rewind(&mut self) {
        self.next_part = 0;
        self.current = None;
        self.passed = 0;
    }

    /// Rows of the table, once that is known.
    pub fn total_rows(&self) -> Option<u64> {
        self.feed.total_rows(&self.table)
    }

    /// All parts, once the producer has ended; calls `waiting` with its name if it has to wait.
    pub fn parts(&self, waiting: Waiting<'_>) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        while let Some(part) = self.feed.next(&self.table, parts.len(), &self.cancel, &mut || waiting(&self.name))? {
            parts.push(part);
        }
        Ok(parts)
    }

    /// The table as shards, of these parts.
    pub fn shards(&self, parts: Vec<Part>, cache: &LazyCache<'_>) -> Result<Shards> {
        let rows = |part: &Part| part.rows.saturating_as::<usize>();
        let sources = parts.iter().map(|part| Source { digest: part.digest.clone(), rows: rows(part) }).collect();
        let (artefact, table) = (self.artefact.clone(), self.table.clone());
        let read = move |shard: usize| {
            let part = &parts[shard];
            let name = Artefact::part_name(&table, part.index);
            let content = artefact.read(&name, part.bytes, &part.digest)?;
            parquet::decode_whole(content).map_err(|error| error.context(format!("`{}`", artefact.place(&name))))
        };
        let cancel = self.cancel.clone();
        Ok(Shards::new(self.name.clone(), sources, cache.get()?, Box::new(read), Box::new(move || cancel.proceed())))
    }

    /// The next rows; calls `waiting` with its name if it has to wait for the producer.
    pub fn next(&mut self, waiting: Waiting<'_>) -> Result<Option<RecordBatch>> {
        loop {
            self.cancel.proceed()?;
            if let Some(reader) = &mut self.current {
                match reader.next() {
                    Some(batch) => {
                        let batch = batch?;
                        let pass = self.passed.min(batch.num_rows());
                        self.passed -= pass;
                        if pass < batch.num_rows() {
                            return Ok(Some(batch.slice(pass, batch.num_rows() - pass)));
                        }
                    }
                    None => self.current = None,
                }
                continue;
            }
            let waiting = &mut || waiting(&self.name);
            let Some(part) = self.feed.next(&self.table, self.next_part, &self.cancel, waiting)? else {
                return Ok(None);
            };
            self.next_part += 1;
            let rows = part.rows.saturating_as::<usize>();
            if self.passed >= rows {
                self.passed -= rows;
                continue;
            }
            let name = Artefact::part_name(&self.table, part.index);
            let content = self.artefact.read(&name, part.bytes, &part.digest)?;
            let place = self.artefact.place(&name);
            self.current = Some(parquet::decode(content).map_err(|error| error.context(format!("`{place}`")))?);
        }
    }

    /// Passes over the next `rows` rows without reading the parts that they fill.
    pub fn skip(&mut self, rows: usize) {
        self.passed += rows;
    }
}

/// Cuts the rows of a reader into blocks of the same number of rows.
pub(super) struct Blocks<'r> {
    reader: &'r mut TableReader,
    rows: usize,
    rest: Option<RecordBatch>,
}

impl<'r> Blocks<'r> {
    /// Blocks of `rows` rows, the last one shorter.
    pub fn new(reader: &'r mut TableReader, rows: usize) -> Self {
        Self { reader, rows: rows.max(1), rest: None }
    }

    /// The next block.
    pub fn next(&mut self, waiting: Waiting<'_>) -> Result<Option<RecordBatch>> {
        let mut pieces = Vec::new();
        let mut wanted = self.rows;
        while wanted > 0 {
            let batch = match self.rest.take() {
                Some(rest) => rest,
                None => match self.reader.next(waiting)? {
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

    /// Rows of the table, once that is known.
    pub fn total_rows(&self) -> Option<u64> {
        self.reader.total_rows()
    }
}

/// Bytes that the rows of a batch take, not counting what else its buffers hold.
pub(super) fn weight(batch: &RecordBatch) -> u64 {
    let columns = batch.columns().iter();
    columns
        .map(|column| {
            column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size()) as u64
        })
        .sum()
}
