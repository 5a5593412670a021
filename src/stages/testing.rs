//! A world in memory, for the tests of stages.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::Schema;
use bytes::Bytes;

use crate::error::{Error, Kind, Result};
use crate::io::shard::Shard;
use crate::io::shards::Shards;
use crate::runtime::{Cancel, Device, Ranks, Resources, Stalls};
use crate::stage::{Block, Cx, MapFn, Over, Run, StageEvent, Warning, World};

/// Inputs before, outputs after.
#[derive(Debug, Default)]
pub(crate) struct MemoryWorld {
    /// Table inputs.
    pub tables: HashMap<String, Vec<RecordBatch>>,
    /// Files inputs: (input, file) to content.
    pub files: HashMap<(String, String), Bytes>,
    /// Places of source inputs, and folders that paths in table inputs are relative to.
    pub paths: HashMap<String, PathBuf>,
    /// Table outputs.
    pub written: HashMap<String, Vec<RecordBatch>>,
    /// Files outputs: (output, file) to content.
    pub put: BTreeMap<(String, String), Bytes>,
    /// What was saved last.
    pub saved: Option<Bytes>,
    /// What is kept beside the outputs.
    pub kept: HashMap<String, Arc<Shard>>,
    /// What was waited for.
    pub stalls: Stalls,
    /// Calls of `save` so far.
    pub saves: usize,
    /// The call of `save` (from 1) after which the world is cancelled.
    pub cancel_after_save: Option<usize>,
    /// Calls of `keep` so far.
    pub keeps: usize,
    /// The call of `keep` (from 1) after which the world is cancelled.
    pub cancel_after_keep: Option<usize>,
    /// Threads, device and whether it is cancelled.
    pub resources: TwoThreads,
    /// Warnings.
    pub warnings: Vec<Warning>,
    at: HashMap<String, usize>,
}

/// Two threads on the processor.
#[derive(Debug)]
pub(crate) struct TwoThreads(pub Resources);

impl Default for TwoThreads {
    fn default() -> Self {
        Self(Resources { threads: 2, device: Device::Cpu, cancel: Cancel::new() })
    }
}

impl MemoryWorld {
    /// Runs `stage` in this world.
    pub fn run(&mut self, stage: &dyn Run) -> Result<()> {
        self.at.clear();
        stage.run(self)
    }

    /// All rows of an input.
    fn all(&mut self, input: &str) -> Result<Vec<RecordBatch>> {
        let world: &mut Cx<'_> = self;
        world.read_all(input)
    }

    fn cancel_after(&self, calls: usize, limit: Option<usize>) {
        if limit == Some(calls) {
            self.resources.0.cancel.cancel();
        }
    }

    /// The rows written to `output`, in one batch.
    pub fn output(&self, output: &str) -> RecordBatch {
        let batches = self.written.get(output).unwrap_or_else(|| panic!("nothing written to `{output}`"));
        concat_batches(batches[0].schema_ref(), batches).expect("batches of one table have one schema")
    }
}

impl World for MemoryWorld {
    fn next(&mut self, input: &str) -> Result<Option<RecordBatch>> {
        self.resources.0.cancel.proceed()?;
        let batches = self.tables.get(input).ok_or_else(|| Error::internal(format!("no input `{input}`")))?;
        let at = self.at.entry(input.to_owned()).or_default();
        let next = batches.get(*at).cloned();
        *at = if next.is_some() { *at + 1 } else { 0 };
        Ok(next)
    }
    fn shards(&mut self, input: &str) -> Result<Shards> {
        Ok(Shards::in_memory(input, self.all(input)?))
    }
    fn file(&mut self, input: &str, name: &str) -> Result<Bytes> {
        let key = (input.to_owned(), name.to_owned());
        self.files.get(&key).cloned().ok_or_else(|| Error::data(format!("no file `{name}` in `{input}`")))
    }
    fn path(&self, input: &str) -> Result<Option<PathBuf>> {
        Ok(self.paths.get(input).cloned())
    }
    fn write(&mut self, output: &str, batch: RecordBatch) -> Result<()> {
        self.resources.0.cancel.proceed()?;
        self.written.entry(output.to_owned()).or_default().push(batch);
        Ok(())
    }
    fn map(&mut self, over: Over<'_>, output: &str, size: usize, function: &MapFn<'_>) -> Result<()> {
        let (count, all) = match over {
            Over::Numbers(count) => (count, None),
            Over::Rows(input) => {
                let batches = self.all(input)?;
                let Some(first) = batches.first() else { return Ok(()) };
                let all = concat_batches(first.schema_ref(), &batches)?;
                (all.num_rows(), Some(all))
            }
        };
        for start in (0..count).step_by(size) {
            let range = start..count.min(start + size);
            let rows = match &all {
                Some(all) => all.slice(start, range.len()),
                None => RecordBatch::new_empty(Schema::empty().into()),
            };
            let mapped = function(&Block { range, rows })?;
            self.warnings.extend(mapped.warnings);
            self.write(output, mapped.batch)?;
        }
        Ok(())
    }
    fn put_file(&mut self, output: &str, name: &str, content: Bytes) -> Result<()> {
        self.resources.0.cancel.proceed()?;
        self.put.insert((output.to_owned(), name.to_owned()), content);
        Ok(())
    }
    fn kept(&mut self, name: &str, settings: &serde_json::Value) -> Result<Option<Arc<Shard>>> {
        Ok(self.kept.get(&format!("{name} {settings}")).cloned())
    }
    fn keep(&mut self, name: &str, settings: &serde_json::Value, batch: RecordBatch) -> Result<Arc<Shard>> {
        self.resources.0.cancel.proceed()?;
        let shard = Arc::new(Shard::of_batch(&batch)?);
        self.keeps += 1;
        self.cancel_after(self.keeps, self.cancel_after_keep);
        self.kept.insert(format!("{name} {settings}"), Arc::clone(&shard));
        Ok(shard)
    }
    fn state(&mut self) -> Result<Option<Bytes>> {
        Ok(self.saved.clone())
    }
    fn save(&mut self, state: Bytes, _last: usize) -> Result<()> {
        self.resources.0.cancel.proceed()?;
        self.saved = Some(state);
        self.saves += 1;
        self.cancel_after(self.saves, self.cancel_after_save);
        Ok(())
    }
    fn emit(&mut self, event: StageEvent) {
        match event {
            StageEvent::Warning(warning) => self.warnings.push(warning),
            StageEvent::Stalls(stalls) => self.stalls = stalls,
            StageEvent::Progress(_) => {}
        }
    }
    fn resources(&self) -> &Resources {
        &self.resources.0
    }
    fn turn(&mut self) -> Result<()> {
        Ok(())
    }
    fn ranks(&mut self, wanted: usize) -> Result<Ranks> {
        match wanted {
            1 => Ok(Ranks::alone()),
            wanted => Err(Error::internal(format!("{wanted} ranks in a world of one"))),
        }
    }
}

/// Checks that a stage which is stopped after any state that it saves, and then goes on in another process, gives the rows of
/// `tables` and the files of one that ran through. Gives how many states that were.
pub(crate) fn resumed_wherever_it_is_cut(stage: &dyn Run, world: impl Fn() -> MemoryWorld, tables: &[&str]) -> usize {
    let mut whole = world();
    whole.run(stage).expect("a run");
    assert!(whole.saves > 0);
    for cut in 1..=whole.saves {
        let mut first = world();
        first.cancel_after_save = Some(cut);
        assert_eq!(first.run(stage).expect_err("cancelled").kind(), Kind::Interrupted);
        let mut second = world();
        second.saved = first.saved.clone();
        second.run(stage).expect("the rest of a run");
        for &table in tables {
            let parts = [&first, &second].into_iter().flat_map(|world| world.written.get(table).into_iter().flatten());
            let parts: Vec<RecordBatch> = parts.cloned().collect();
            let rows = concat_batches(&parts[0].schema(), &parts).expect("one schema");
            assert_eq!(rows, whole.output(table), "{table}, cut {cut}");
        }
        assert_eq!(second.put, whole.put, "cut {cut}");
    }
    whole.saves
}
