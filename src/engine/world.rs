//! What a running stage sees of the engine.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use bytes::Bytes;

use crate::engine::cache::LazyCache;
use crate::engine::cancel::Cancel;
use crate::engine::event::{Event, Observer};
use crate::engine::feed::Feed;
use crate::engine::flow::{Budget, ordered_map};
use crate::engine::journal::State;
use crate::engine::key::Identity;
use crate::engine::ranks::{Shift, Subject, Together};
use crate::engine::reader::{Blocks, TableReader, weight};
use crate::engine::store::Artefact;
use crate::engine::turn::{Turn, Turns};
use crate::engine::writer::{Ledger, TableWriter};
use crate::error::{Error, Result};
use crate::io::parquet;
use crate::io::shard::Shard;
use crate::io::shards::Shards;
use crate::loader::Stalls;
use crate::stage::{Cancellation, Device, MapFn, Mapped, ProduceFn, Progress, Ranks, Warning, World};

/// Time between two progress events of a stage.
const PROGRESS_PAUSE: Duration = Duration::from_millis(100);

/// An input, ready to be read.
pub(super) enum InputPort {
    /// A table, and the folder that its paths are relative to.
    Table(Box<TableReader>, Option<PathBuf>),
    /// Files: what they are called, where they lie, who tells when they are there.
    Files { name: String, artefact: Artefact, output: String, feed: Arc<Feed> },
    /// A file or folder outside of the store.
    Source(PathBuf),
}

/// What all stages of a run share.
#[derive(Clone, Copy)]
pub(super) struct Shared<'e> {
    pub cancel: &'e Cancel,
    pub budget: &'e Budget,
    pub threads: usize,
    pub device: Device,
    pub cache: &'e LazyCache<'e>,
    pub together: &'e Together<'e>,
    pub turns: &'e Arc<Turns>,
    pub observer: &'e Observer<'e>,
}

/// The world of one running stage.
pub(super) struct EngineWorld<'e> {
    pub shared: Shared<'e>,
    identity: &'e Identity,
    pub inputs: BTreeMap<String, InputPort>,
    pub outputs: BTreeMap<&'static str, TableWriter>,
    pub files: Vec<&'static str>,
    pub ledger: Ledger<'e>,
    /// Warnings given since the last state.
    pub warnings: Vec<Warning>,
    /// Time spent waiting for producers.
    pub waited: Duration,
    /// What the stage waited for, if it told.
    pub stalls: Option<Stalls>,
    /// The other ranks, if the stage runs on several.
    pub shift: Option<Shift>,
    turn: Option<Turn>,
    told: Option<Instant>,
    meter: Meter<'e>,
}

impl<'e> EngineWorld<'e> {
    /// A world with these inputs and outputs.
    pub fn new(
        shared: Shared<'e>,
        identity: &'e Identity,
        inputs: BTreeMap<String, InputPort>,
        outputs: BTreeMap<&'static str, TableWriter>,
        files: Vec<&'static str>,
        ledger: Ledger<'e>,
    ) -> Self {
        let meter = Meter {
            observer: shared.observer,
            stage: ledger.stage.clone(),
            last: None,
            now: Progress { done: 0, total: None },
        };
        Self {
            shared,
            identity,
            inputs,
            outputs,
            files,
            ledger,
            warnings: vec![],
            waited: Duration::ZERO,
            stalls: None,
            shift: None,
            turn: None,
            told: None,
            meter,
        }
    }

    /// Publishes what is left of every table.
    pub fn finish(&mut self) -> Result<()> {
        for writer in self.outputs.values_mut() {
            writer.finish(&mut self.ledger)?;
        }
        Ok(())
    }

    fn table(&mut self, input: &str) -> Result<&mut TableReader> {
        match self.inputs.get_mut(input) {
            Some(InputPort::Table(reader, _)) => Ok(reader),
            _ => Err(Error::internal(format!("stage `{}` declares no table `{input}`", self.ledger.stage))),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "progress is shown at a pace that people can read, and waiting is not work"
)]
fn now() -> Instant {
    Instant::now()
}

/// Tells of progress, not too often.
struct Meter<'e> {
    observer: &'e Observer<'e>,
    stage: String,
    last: Option<Instant>,
    now: Progress,
}

impl Meter<'_> {
    fn at(&mut self, now: Progress) {
        self.now = now;
        if self.last.is_none_or(|last| last.elapsed() >= PROGRESS_PAUSE) || Some(now.done) == now.total {
            self.tell(None);
        }
    }

    fn tell(&mut self, waiting_for: Option<String>) {
        self.last = Some(now());
        let Progress { done, total } = self.now;
        (self.observer)(&Event::Progress { stage: self.stage.clone(), done, total, waiting_for });
    }
}

/// A block that became a part, not yet published.
struct Encoded {
    /// Rows of the input, or numbers, that the block is made of.
    units: u64,
    mapped: Mapped,
    content: Bytes,
}

/// Rows of a block as a part, with the bytes that they hold in memory.
fn encoded(units: usize, mapped: Mapped) -> Result<(Encoded, u64)> {
    let content = parquet::encode(&mapped.batch.schema(), std::slice::from_ref(&mapped.batch))?;
    let bytes = weight(&mapped.batch) + content.len() as u64;
    Ok((Encoded { units: units as u64, mapped, content }, bytes))
}

/// Blocks of `output` that an earlier run has published; the writer goes on after them.
fn blocks_done(output: &str, writer: &mut TableWriter, ledger: &Ledger<'_>) -> usize {
    let parts = ledger.committed.tables.get(output).map_or(&[][..], Vec::as_slice);
    writer.passed(parts.iter().map(|part| part.rows).sum());
    parts.len()
}

/// Where blocks go, in order.
struct Sink<'w, 'e> {
    observer: &'e Observer<'e>,
    output: &'w str,
    writer: &'w mut TableWriter,
    ledger: &'w mut Ledger<'e>,
}

impl Sink<'_, '_> {
    fn publish(&mut self, block: Encoded) -> Result<()> {
        let Encoded { mapped, content, .. } = block;
        self.writer.check(&mapped.batch)?;
        for warning in &mapped.warnings {
            (self.observer)(&Event::Warned { stage: self.ledger.stage.clone(), warning: warning.clone() });
        }
        let rows = mapped.batch.num_rows() as u64;
        self.ledger.part(self.output, content, rows, mapped.warnings)?;
        self.writer.passed(rows);
        Ok(())
    }
}

impl World for EngineWorld<'_> {
    fn next(&mut self, input: &str) -> Result<Option<RecordBatch>> {
        let Some(InputPort::Table(reader, _)) = self.inputs.get_mut(input) else {
            return Err(Error::internal(format!("stage `{}` declares no table `{input}`", self.ledger.stage)));
        };
        let name = reader.name.clone();
        let meter = &mut self.meter;
        let mut since = None;
        let next = reader.next(&mut || {
            since = Some(now());
            meter.tell(Some(name.clone()));
        });
        self.waited += since.map_or(Duration::ZERO, |since| since.elapsed());
        next
    }

    fn rewind(&mut self, input: &str) -> Result<()> {
        self.table(input)?.rewind();
        self.proceed()
    }

    fn shards(&mut self, input: &str) -> Result<Shards> {
        let Some(InputPort::Table(reader, _)) = self.inputs.get(input) else {
            return Err(Error::internal(format!("stage `{}` declares no table `{input}`", self.ledger.stage)));
        };
        let meter = &mut self.meter;
        let mut since = None;
        let name = reader.name.clone();
        let parts = reader.parts(&mut || {
            since.get_or_insert_with(now);
            meter.tell(Some(name.clone()));
        })?;
        self.waited += since.map_or(Duration::ZERO, |since| since.elapsed());
        reader.shards(parts, self.shared.cache, self.shared.cancel)
    }

    fn kept(&mut self, name: &str, settings: &serde_json::Value) -> Result<Option<Arc<Shard>>> {
        self.proceed()?;
        self.shared.cache.get()?.get(&self.identity.kept_name(name, settings))
    }

    fn keep(&mut self, name: &str, settings: &serde_json::Value, batch: RecordBatch) -> Result<Arc<Shard>> {
        let cancel = self.shared.cancel;
        self.shared
            .cache
            .get()?
            .get_or_make(&self.identity.kept_name(name, settings), || Ok(batch), &|| cancel.proceed())
    }

    fn write(&mut self, output: &str, batch: RecordBatch) -> Result<()> {
        self.proceed()?;
        let Some(writer) = self.outputs.get_mut(output) else {
            return Err(Error::internal(format!("stage `{}` declares no table `{output}`", self.ledger.stage)));
        };
        writer.write(batch, &mut self.ledger)?;
        if self.meter.now.total.is_none() {
            let done = self.outputs.values().map(TableWriter::rows).sum();
            self.meter.at(Progress { done, total: None });
        }
        Ok(())
    }

    fn map(&mut self, input: &str, output: &str, rows: usize, function: &MapFn<'_>) -> Result<()> {
        let Self { shared, inputs, outputs, ledger, meter, waited, .. } = self;
        let (Some(InputPort::Table(reader, _)), Some(writer)) = (inputs.get_mut(input), outputs.get_mut(output)) else {
            return Err(Error::internal(format!("stage `{}` declares no `{input}` or no `{output}`", ledger.stage)));
        };
        let blocks_done = blocks_done(output, writer, ledger);
        // Raised by the first error, so that the reader does not wait for a producer in vain.
        let stop = shared.cancel.child();
        reader.rewind();
        reader.cancel = stop.clone();
        reader.skip(blocks_done * rows);
        let name = reader.name.clone();
        let mut read = (blocks_done * rows) as u64;
        let mut blocks = Blocks::new(reader, rows);
        let waits = crossbeam::atomic::AtomicCell::new(false);
        let total = crossbeam::atomic::AtomicCell::new(None);
        // Later waits overlap with work.
        let (begun, first_wait) = (now(), crossbeam::atomic::AtomicCell::new(None));
        let source = || {
            let block = blocks.next(&mut || waits.store(true))?;
            if first_wait.load().is_none() {
                first_wait.store(Some(if waits.load() { begun.elapsed() } else { Duration::ZERO }));
            }
            waits.store(false);
            total.store(blocks.total_rows());
            Ok(block.map(|block| (block.clone(), weight(&block))))
        };
        let work = |block: RecordBatch| encoded(block.num_rows(), function(&block)?);
        meter.tell(Some(name.clone()));
        let mut sink = Sink { observer: shared.observer, output, writer, ledger };
        let sink = |block: Encoded| {
            read += block.units;
            sink.publish(block)?;
            meter.at(Progress { done: read, total: total.load() });
            if waits.load() {
                meter.tell(Some(name.clone()));
            }
            Ok(())
        };
        let mapped = ordered_map(shared.budget, &stop, shared.threads, source, work, sink);
        reader.cancel = shared.cancel.clone();
        *waited += first_wait.load().unwrap_or_default();
        mapped
    }

    fn produce(&mut self, output: &str, count: usize, size: usize, function: &ProduceFn<'_>) -> Result<()> {
        let Self { shared, outputs, ledger, meter, .. } = self;
        let Some(writer) = outputs.get_mut(output) else {
            return Err(Error::internal(format!("stage `{}` declares no `{output}`", ledger.stage)));
        };
        let size = size.max(1);
        let mut done = blocks_done(output, writer, ledger) * size;
        let mut next = done;
        let source = || {
            let range = next..count.min(next + size);
            next += size;
            Ok((range.start < count).then_some((range, 1)))
        };
        let work = |range: Range<usize>| encoded(range.len(), function(range)?);
        let mut sink = Sink { observer: shared.observer, output, writer, ledger };
        let sink = |block: Encoded| {
            done += usize::try_from(block.units).unwrap_or(usize::MAX);
            sink.publish(block)?;
            meter.at(Progress { done: done as u64, total: Some(count as u64) });
            Ok(())
        };
        ordered_map(shared.budget, &shared.cancel.child(), shared.threads, source, work, sink)
    }

    fn file(&mut self, input: &str, file: &str) -> Result<Bytes> {
        let Some(InputPort::Files { name, artefact, output, feed }) = self.inputs.get(input) else {
            return Err(Error::internal(format!("stage `{}` declares no files `{input}`", self.ledger.stage)));
        };
        let meter = &mut self.meter;
        let mut since = None;
        let files = feed.files(output, self.shared.cancel, &mut || {
            since = Some(now());
            meter.tell(Some(name.clone()));
        })?;
        self.waited += since.map_or(Duration::ZERO, |since| since.elapsed());
        let Some(entry) = files.iter().find(|entry| entry.name == file) else {
            let names: Vec<_> = files.iter().map(|entry| format!("`{}`", entry.name)).collect();
            return Err(Error::data(format!("`{name}` has no file `{file}`; it has {}", names.join(", "))));
        };
        artefact.read(&format!("{output}/{file}"), entry.bytes, &entry.digest)
    }

    fn put_file(&mut self, output: &str, name: &str, content: Bytes) -> Result<()> {
        self.proceed()?;
        if !self.files.contains(&output) || name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.') {
            return Err(Error::internal(format!("stage `{}` declares no file `{output}/{name}`", self.ledger.stage)));
        }
        self.ledger.file(output, name, content)
    }

    fn source(&self, input: &str) -> Result<PathBuf> {
        match self.inputs.get(input) {
            Some(InputPort::Source(path)) => Ok(path.clone()),
            _ => Err(Error::internal(format!("stage `{}` declares no source `{input}`", self.ledger.stage))),
        }
    }

    fn root(&self, input: &str) -> Result<Option<PathBuf>> {
        match self.inputs.get(input) {
            Some(InputPort::Table(_, root)) => Ok(root.clone()),
            _ => Err(Error::internal(format!("stage `{}` declares no table `{input}`", self.ledger.stage))),
        }
    }

    fn state(&mut self) -> Result<Option<Bytes>> {
        let Some(State { file, .. }) = self.ledger.committed.states.last() else { return Ok(None) };
        self.ledger.artefact.read(&file.name, file.bytes, &file.digest).map(Some)
    }

    fn save(&mut self, state: Bytes, last: usize) -> Result<()> {
        self.proceed()?;
        for writer in self.outputs.values_mut() {
            writer.cut(&mut self.ledger)?;
        }
        self.ledger.state(state, std::mem::take(&mut self.warnings), last)
    }

    fn proceed(&self) -> Result<()> {
        self.shared.cancel.proceed()
    }

    fn cancellation(&self) -> Cancellation {
        let cancel = self.shared.cancel.clone();
        Arc::new(move || cancel.proceed())
    }

    fn warn(&mut self, warning: Warning) {
        (self.shared.observer)(&Event::Warned { stage: self.ledger.stage.clone(), warning: warning.clone() });
        self.warnings.push(warning);
    }

    fn progress(&mut self, progress: Progress) {
        self.meter.at(progress);
    }

    fn stalled(&mut self, stalls: Stalls) {
        self.stalls = Some(stalls);
        if self.told.is_none_or(|told| told.elapsed() >= PROGRESS_PAUSE) {
            self.told = Some(now());
            (self.shared.observer)(&Event::Loading { stage: self.ledger.stage.clone(), stalls });
        }
    }

    fn threads(&self) -> usize {
        self.shared.threads
    }

    fn device(&self) -> Device {
        self.shared.device
    }

    fn ranks(&mut self, wanted: usize) -> Result<Ranks> {
        if self.shift.is_none() {
            let Self { shared, identity, inputs, ledger, meter, .. } = self;
            let state = ledger.committed.states.last().map(|state| state.file.clone());
            let subject = Subject { stage: &ledger.stage, identity, inputs, state };
            let waiting = &mut |name| meter.tell(Some(name));
            let begun = shared.together.begin(wanted, subject, shared.threads, shared.cancel, waiting)?;
            if let Some((shift, threads)) = begun {
                self.shared.threads = threads;
                self.shift = Some(shift);
            }
        }
        let ranks = self.shift.as_ref().map_or_else(Ranks::alone, |shift| shift.ranks.clone());
        let (artefact, of) = (&self.ledger.artefact, Bytes::from(ranks.of.to_string()));
        if !artefact.create("ranks", of.clone())?
            && let Some(before) = artefact.get("ranks")?.filter(|before| *before != of)
        {
            let before = String::from_utf8_lossy(&before);
            let message = format!("{before} at the beginning, {} now: numbers may differ in their last bits", ranks.of);
            self.warn(Warning { subject: "ranks".to_owned(), message });
        }
        Ok(ranks)
    }

    fn turn(&mut self) -> Result<()> {
        let since = now();
        if self.turn.is_none() {
            self.turn = Some(self.shared.turns.wait(self.shared.cancel)?);
        }
        self.waited += since.elapsed();
        Ok(())
    }
}
