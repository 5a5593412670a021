//! A world in memory, for the tests of stages.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use bytes::Bytes;

use crate::error::{Error, Kind, Result};
use crate::io::shard::Shard;
use crate::io::shards::Shards;
use crate::loader::Stalls;
use crate::stage::{Cancellation, Cx, Device, MapFn, ProduceFn, Progress, Ranks, Run, Warning, World};

/// Inputs before, outputs after.
#[derive(Debug, Default)]
pub(crate) struct MemoryWorld {
    /// Table inputs.
    pub tables: HashMap<String, Vec<RecordBatch>>,
    /// Files inputs: (input, file) to content.
    pub files: HashMap<(String, String), Bytes>,
    /// Source inputs.
    pub sources: HashMap<String, PathBuf>,
    /// Roots of table inputs.
    pub roots: HashMap<String, PathBuf>,
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
    /// Where tensors live.
    pub device: Device,
    /// Warnings.
    pub warnings: Vec<Warning>,
    at: HashMap<String, usize>,
}

impl MemoryWorld {
    /// Runs `stage` in this world.
    pub fn run(&mut self, stage: &dyn Run) -> Result<()> {
        self.at.clear();
        stage.run(&mut Cx::new(self))
    }

    /// The rows written to `output`, in one batch.
    pub fn output(&self, output: &str) -> RecordBatch {
        let batches = self.written.get(output).unwrap_or_else(|| panic!("nothing written to `{output}`"));
        concat_batches(batches[0].schema_ref(), batches).expect("batches of one table have one schema")
    }
}

impl World for MemoryWorld {
    fn next(&mut self, input: &str) -> Result<Option<RecordBatch>> {
        self.proceed()?;
        let batches = self.tables.get(input).ok_or_else(|| Error::internal(format!("no input `{input}`")))?;
        let at = self.at.entry(input.to_owned()).or_default();
        *at += 1;
        Ok(batches.get(*at - 1).cloned())
    }
    fn rewind(&mut self, input: &str) -> Result<()> {
        self.at.insert(input.to_owned(), 0);
        self.proceed()
    }
    fn shards(&mut self, input: &str) -> Result<Shards> {
        self.rewind(input)?;
        let mut cx = Cx::new(self);
        Ok(Shards::in_memory(input, cx.read_all(input)?))
    }
    fn kept(&mut self, name: &str, settings: &serde_json::Value) -> Result<Option<Arc<Shard>>> {
        Ok(self.kept.get(&format!("{name} {settings}")).cloned())
    }
    fn keep(&mut self, name: &str, settings: &serde_json::Value, batch: RecordBatch) -> Result<Arc<Shard>> {
        self.proceed()?;
        let shard = Arc::new(Shard::of_batch(&batch)?);
        self.keeps += 1;
        self.kept.insert(format!("{name} {settings}"), Arc::clone(&shard));
        Ok(shard)
    }
    fn write(&mut self, output: &str, batch: RecordBatch) -> Result<()> {
        self.proceed()?;
        self.written.entry(output.to_owned()).or_default().push(batch);
        Ok(())
    }
    fn map(&mut self, input: &str, output: &str, rows: usize, function: &MapFn<'_>) -> Result<()> {
        let mut cx = Cx::new(self);
        let batches = cx.read_all(input)?;
        let Some(first) = batches.first() else { return Ok(()) };
        let all = concat_batches(first.schema_ref(), &batches)?;
        for start in (0..all.num_rows()).step_by(rows) {
            let mapped = function(&all.slice(start, rows.min(all.num_rows() - start)))?;
            self.warnings.extend(mapped.warnings);
            self.write(output, mapped.batch)?;
        }
        Ok(())
    }
    fn produce(&mut self, output: &str, count: usize, size: usize, function: &ProduceFn<'_>) -> Result<()> {
        for start in (0..count).step_by(size) {
            let mapped = function(start..count.min(start + size))?;
            self.warnings.extend(mapped.warnings);
            self.write(output, mapped.batch)?;
        }
        Ok(())
    }
    fn file(&mut self, input: &str, name: &str) -> Result<Bytes> {
        let key = (input.to_owned(), name.to_owned());
        self.files.get(&key).cloned().ok_or_else(|| Error::data(format!("no file `{name}` in `{input}`")))
    }
    fn put_file(&mut self, output: &str, name: &str, content: Bytes) -> Result<()> {
        self.proceed()?;
        self.put.insert((output.to_owned(), name.to_owned()), content);
        Ok(())
    }
    fn source(&self, input: &str) -> Result<PathBuf> {
        self.sources.get(input).cloned().ok_or_else(|| Error::internal(format!("no source `{input}`")))
    }
    fn root(&self, input: &str) -> Result<Option<PathBuf>> {
        Ok(self.roots.get(input).cloned())
    }
    fn state(&mut self) -> Result<Option<Bytes>> {
        Ok(self.saved.clone())
    }
    fn save(&mut self, state: Bytes, _last: usize) -> Result<()> {
        self.proceed()?;
        self.saved = Some(state);
        self.saves += 1;
        Ok(())
    }
    fn proceed(&self) -> Result<()> {
        let over = |limit: Option<usize>, calls: usize| limit.is_some_and(|limit| calls >= limit);
        if over(self.cancel_after_save, self.saves) || over(self.cancel_after_keep, self.keeps) {
            return Err(Error::interrupted());
        }
        Ok(())
    }
    fn cancellation(&self) -> Cancellation {
        // What is cancelled here is cancelled by a call of the stage, so never while something works beside it.
        Arc::new(|| Ok(()))
    }
    fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }
    fn progress(&mut self, _progress: Progress) {}
    fn stalled(&mut self, stalls: Stalls) {
        self.stalls = stalls;
    }
    fn threads(&self) -> usize {
        2
    }
    fn device(&self) -> Device {
        self.device
    }
    fn ranks(&mut self, wanted: usize) -> Result<Ranks> {
        match wanted {
            1 => Ok(Ranks::alone()),
            wanted => Err(Error::internal(format!("{wanted} ranks in a world of one"))),
        }
    }
    fn turn(&mut self) -> Result<()> {
        Ok(())
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
