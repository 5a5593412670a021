//! The world of a stage that the engine runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use bytes::Bytes;
use serde_json::Value;

use crate::engine::cache::LazyCache;
use crate::engine::event::Observer;
use crate::engine::flow::Budget;
use crate::engine::inputs::Inputs;
use crate::engine::map::Map;
use crate::engine::meter::{Meter, now};
use crate::engine::ranks::{Shift, Subject, Together};
use crate::engine::reader::Waiting;
use crate::engine::turn::{Turn, Turns};
use crate::engine::writer::{Ledger, TableWriter};
use crate::error::{Error, Result};
use crate::io::shard::Shard;
use crate::io::shards::Shards;
use crate::runtime::{Ranks, Resources, Stalls};
use crate::stage::{MapFn, Over, Progress, StageEvent, Warning, World};
use crate::store::journal::State;
use crate::store::key::Identity;

/// What all stages of a run share.
#[derive(Clone, Copy)]
pub(super) struct Shared<'e> {
    pub budget: &'e Budget,
    pub cache: &'e LazyCache<'e>,
    pub together: &'e Together<'e>,
    pub turns: &'e Arc<Turns>,
    pub observer: &'e Observer<'e>,
}

/// The world of one running stage.
pub(super) struct EngineWorld<'e> {
    shared: Shared<'e>,
    resources: Resources,
    identity: &'e Identity,
    inputs: Inputs,
    outputs: BTreeMap<&'static str, TableWriter>,
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
    meter: Meter<'e>,
}

impl<'e> EngineWorld<'e> {
    /// A world with these inputs and outputs.
    pub fn new(
        shared: Shared<'e>,
        resources: Resources,
        identity: &'e Identity,
        inputs: Inputs,
        outputs: BTreeMap<&'static str, TableWriter>,
        files: Vec<&'static str>,
        ledger: Ledger<'e>,
    ) -> Self {
        let meter = Meter::new(shared.observer, ledger.stage.clone());
        Self {
            shared,
            resources,
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
            meter,
        }
    }

    /// Publishes what is left of every table.
    pub fn finish(&mut self) -> Result<()> {
        for writer in self.outputs.values_mut() {
            writer.finish(&mut self.ledger)?;
        }
        self.meter.tell_stalls();
        Ok(())
    }

    /// Reads from the inputs; the time from the first wait for a producer on is counted.
    fn awaiting<T>(&mut self, read: impl FnOnce(&mut Inputs, Waiting<'_>) -> Result<T>) -> Result<T> {
        let Self { inputs, meter, waited, .. } = self;
        let mut since = None;
        let result = read(inputs, &mut |name| {
            since.get_or_insert_with(now);
            meter.waits(name);
        });
        *waited += since.map_or(Duration::ZERO, |since| since.elapsed());
        result
    }

    fn no_output(&self, output: &str) -> Error {
        Error::internal(format!("stage `{}` declares no output `{output}`", self.ledger.stage))
    }
}

impl World for EngineWorld<'_> {
    fn next(&mut self, input: &str) -> Result<Option<RecordBatch>> {
        self.awaiting(|inputs, waiting| inputs.next(input, waiting))
    }

    fn shards(&mut self, input: &str) -> Result<Shards> {
        let cache = self.shared.cache;
        self.awaiting(|inputs, waiting| inputs.shards(input, cache, waiting))
    }

    fn file(&mut self, input: &str, name: &str) -> Result<Bytes> {
        let cancel = self.resources.cancel.clone();
        self.awaiting(|inputs, waiting| inputs.file(input, name, &cancel, waiting))
    }

    fn path(&self, input: &str) -> Result<Option<PathBuf>> {
        self.inputs.path(input)
    }

    fn write(&mut self, output: &str, batch: RecordBatch) -> Result<()> {
        self.resources.cancel.proceed()?;
        let Some(writer) = self.outputs.get_mut(output) else { return Err(self.no_output(output)) };
        writer.write(batch, &mut self.ledger)?;
        if self.meter.latest.total.is_none() {
            let done = self.outputs.values().map(TableWriter::rows).sum();
            self.meter.at(Progress { done, total: None });
        }
        Ok(())
    }

    fn map(&mut self, over: Over<'_>, output: &str, size: usize, function: &MapFn<'_>) -> Result<()> {
        let Self { shared, resources, inputs, outputs, ledger, meter, waited, .. } = self;
        let Some(writer) = outputs.get_mut(output) else { return Err(self.no_output(output)) };
        let budget = shared.budget;
        let map = Map { budget, resources, meter, writer, ledger, size: size.max(1), function };
        match over {
            Over::Rows(input) => *waited += map.rows(inputs.table(input)?)?,
            Over::Numbers(count) => map.numbers(count)?,
        }
        Ok(())
    }

    fn put_file(&mut self, output: &str, name: &str, content: Bytes) -> Result<()> {
        self.resources.cancel.proceed()?;
        if !self.files.contains(&output) || name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.') {
            return Err(self.no_output(&format!("{output}/{name}")));
        }
        self.ledger.file(output, name, content)
    }

    fn kept(&mut self, name: &str, settings: &Value) -> Result<Option<Arc<Shard>>> {
        self.shared.cache.kept(&self.identity.kept_name(name, settings), &self.resources.cancel)
    }

    fn keep(&mut self, name: &str, settings: &Value, batch: RecordBatch) -> Result<Arc<Shard>> {
        self.shared.cache.keep(&self.identity.kept_name(name, settings), batch, &self.resources.cancel)
    }

    fn state(&mut self) -> Result<Option<Bytes>> {
        let Some(State { file, .. }) = self.ledger.committed.states.last() else { return Ok(None) };
        self.ledger.artefact.read(&file.name, file.bytes, &file.digest).map(Some)
    }

    fn save(&mut self, state: Bytes, last: usize) -> Result<()> {
        self.resources.cancel.proceed()?;
        for writer in self.outputs.values_mut() {
            writer.cut(&mut self.ledger)?;
        }
        self.ledger.state(state, std::mem::take(&mut self.warnings), last)
    }

    fn emit(&mut self, event: StageEvent) {
        match event {
            StageEvent::Warning(warning) => {
                self.meter.warn(&warning);
                self.warnings.push(warning);
            }
            StageEvent::Progress(progress) => self.meter.at(progress),
            StageEvent::Stalls(stalls) => {
                self.stalls = Some(stalls);
                self.meter.stalls(stalls);
            }
        }
    }

    fn resources(&self) -> &Resources {
        &self.resources
    }

    fn turn(&mut self) -> Result<()> {
        let since = now();
        if self.turn.is_none() {
            self.turn = Some(self.shared.turns.wait(&self.resources.cancel)?);
        }
        self.waited += since.elapsed();
        Ok(())
    }

    fn ranks(&mut self, wanted: usize) -> Result<Ranks> {
        if self.shift.is_none() {
            let Self { shared, resources, identity, inputs, ledger, meter, .. } = self;
            let state = ledger.committed.states.last().map(|state| state.file.clone());
            let subject = Subject { identity, inputs, state };
            if let Some((shift, threads)) =
                shared.together.begin(wanted, subject, resources, &mut |name| meter.waits(name))?
            {
                self.resources.threads = threads;
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
            self.emit(StageEvent::Warning(Warning { subject: "ranks".to_owned(), message }));
        }
        Ok(ranks)
    }
}
