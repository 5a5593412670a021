//! The parallel map of a stage: blocks go through threads and become parts, in order.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use bytes::Bytes;
use crossbeam::atomic::AtomicCell;

use crate::engine::flow::{Budget, ordered_map};
use crate::engine::meter::{Meter, now};
use crate::engine::reader::{Blocks, TableReader, weight};
use crate::engine::writer::{Ledger, TableWriter};
use crate::error::Result;
use crate::io::parquet;
use crate::runtime::{Cancel, Resources};
use crate::stage::{Block, MapFn, Mapped, Progress};

/// A map on its way into one output.
pub(super) struct Map<'m, 'e> {
    pub budget: &'m Budget,
    pub resources: &'m Resources,
    pub meter: &'m mut Meter<'e>,
    pub writer: &'m mut TableWriter,
    pub ledger: &'m mut Ledger<'e>,
    /// Units of a block.
    pub size: usize,
    pub function: &'m MapFn<'m>,
}

/// Signals from the thread that makes blocks to the one that publishes them.
#[derive(Default)]
struct Signs {
    /// Units in all, once they are known.
    total: AtomicCell<Option<u64>>,
    /// A block is waited for.
    waits: AtomicCell<bool>,
    /// Time that the first block was waited for. Later waits overlap with work.
    first_wait: AtomicCell<Option<Duration>>,
}

/// A block that became a part, not yet published.
struct Encoded {
    units: usize,
    mapped: Mapped,
    content: Bytes,
}

impl Map<'_, '_> {
    /// Maps the rows of a table. Gives the time that it waited for the producer before there was anything to do.
    pub fn rows(mut self, reader: &mut TableReader) -> Result<Duration> {
        let begin = self.begin();
        // Raised by the first error, so that the reader does not wait for a producer in vain.
        let stop = self.resources.cancel.child();
        let (name, cancel) = (reader.name.clone(), std::mem::replace(&mut reader.cancel, stop.clone()));
        reader.rewind();
        reader.skip(begin);
        let signs = Signs::default();
        let (begun, mut at) = (now(), begin);
        let mut blocks = Blocks::new(reader, self.size);
        let source = || {
            let block = blocks.next(&mut |_| signs.waits.store(true))?;
            if signs.first_wait.load().is_none() {
                signs.first_wait.store(Some(if signs.waits.load() { begun.elapsed() } else { Duration::ZERO }));
            }
            signs.waits.store(false);
            signs.total.store(blocks.total_rows());
            Ok(block.map(|rows| {
                let range = at..at + rows.num_rows();
                at = range.end;
                let weight = weight(&rows);
                (Block { range, rows }, weight)
            }))
        };
        self.meter.waits(&name);
        let mapped = self.flow(begin, &stop, &signs, &name, source);
        reader.rewind();
        reader.cancel = cancel;
        mapped.map(|()| signs.first_wait.load().unwrap_or_default())
    }

    /// Maps the numbers below `count`.
    pub fn numbers(mut self, count: usize) -> Result<()> {
        let (begin, size) = (self.begin(), self.size);
        let mut at = begin;
        let signs = Signs { total: Some(count as u64).into(), ..Signs::default() };
        let source = || {
            let range = at..count.min(at + size);
            at += size;
            if range.is_empty() {
                return Ok(None);
            }
            Ok(Some((Block { range, rows: RecordBatch::new_empty(Schema::empty().into()) }, 1)))
        };
        let stop = self.resources.cancel.child();
        self.flow(begin, &stop, &signs, "", source)
    }

    /// Units whose blocks an earlier run has published; the writer goes on after them.
    fn begin(&mut self) -> usize {
        let parts = self.ledger.committed.tables.get(self.writer.table()).map_or(&[][..], Vec::as_slice);
        self.writer.passed(parts.iter().map(|part| part.rows).sum());
        parts.len() * self.size
    }

    fn flow(
        self,
        begin: usize,
        stop: &Cancel,
        signs: &Signs,
        name: &str,
        source: impl FnMut() -> Result<Option<(Block, u64)>> + Send,
    ) -> Result<()> {
        let Self { budget, resources, meter, writer, ledger, function, .. } = self;
        let mut done = begin as u64;
        let work = |block: Block| encoded(block.range.len(), function(&block)?);
        let sink = |Encoded { units, mapped, content }: Encoded| {
            writer.check(&mapped.batch)?;
            mapped.warnings.iter().for_each(|warning| meter.warn(warning));
            let rows = mapped.batch.num_rows() as u64;
            ledger.part(writer.table(), content, rows, mapped.warnings)?;
            writer.passed(rows);
            done += units as u64;
            meter.at(Progress { done, total: signs.total.load() });
            if signs.waits.load() {
                meter.waits(name);
            }
            Ok(())
        };
        ordered_map(budget, stop, resources.threads, source, work, sink)
    }
}

/// Rows of a block as a part, with the bytes that they hold in memory.
fn encoded(units: usize, mapped: Mapped) -> Result<(Encoded, u64)> {
    let content = parquet::encode(&mapped.batch.schema(), std::slice::from_ref(&mapped.batch))?;
    let bytes = weight(&mapped.batch) + content.len() as u64;
    Ok((Encoded { units, mapped, content }, bytes))
}
