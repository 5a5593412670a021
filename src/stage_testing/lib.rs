//! In-memory stage host for the tests of stages of all kinds.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{AsArray as _, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Schema;
use bytes::Bytes;

use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_base::runtime::{CancelToken, Device, ProcessGroup, Resources, Stalls};
use pairloom_images::image::picture_digests;
use pairloom_stage::{
    FileKeys, MapBlock, MapFn, MapInput, MapSummary, MappedRows, RunnableStage, SharedEarlierRows, StageContext,
    StageEvent, StageHost, StageLineage, ValidationScores, Warning,
};
use pairloom_storage::objects::ObjectStorage;
use pairloom_storage::shard::Shard;
use pairloom_storage::table_shards::TableShards;

/// Stage host that reads its inputs from memory and collects the outputs there.
#[derive(Debug, Default)]
pub struct InMemoryHost {
    /// Table inputs, by name.
    pub input_tables: HashMap<String, Vec<RecordBatch>>,
    /// Contents of file inputs, by (input, file).
    pub input_files: HashMap<(String, String), Bytes>,
    /// Paths of source inputs, and folders that the paths in table inputs are relative to.
    pub source_paths: HashMap<String, PathBuf>,
    /// Objects of source inputs at URLs.
    pub buckets: HashMap<String, ObjectStorage>,
    /// Lineage of the inputs.
    pub lineage: StageLineage,
    /// Table outputs, by name.
    pub output_tables: HashMap<String, Vec<RecordBatch>>,
    /// Contents of file outputs, by (output, file).
    pub output_files: BTreeMap<(String, String), Bytes>,
    /// State that was saved last.
    pub saved_state: Option<Bytes>,
    /// Cached shards, by name and settings.
    pub cached: HashMap<String, Arc<Shard>>,
    /// Stalls that the stage reported.
    pub stalls: Stalls,
    /// Number of calls of `save_state` so far.
    pub n_saves: usize,
    /// Call of `save_state` (from 1) after which the run is cancelled.
    pub cancel_after_save: Option<usize>,
    /// Number of calls of `cache` so far.
    pub n_cached: usize,
    /// Call of `cache` (from 1) after which the run is cancelled.
    pub cancel_after_cache: Option<usize>,
    /// Threads, device and cancellation token.
    pub resources: TestResources,
    /// Warnings of the stage.
    pub warnings: Vec<Warning>,
    /// Validations of the stage, a training.
    pub validations: Vec<ValidationScores>,
    next_batch: HashMap<String, usize>,
}

/// Resources of the tests: two threads on the CPU.
#[derive(Debug)]
pub struct TestResources(pub Resources);

impl Default for TestResources {
    fn default() -> Self {
        Self(Resources { threads: 2, device: Device::Cpu, cancel: CancelToken::new(), remote: None })
    }
}

impl InMemoryHost {
    /// Runs `stage` on this host.
    pub fn run(&mut self, stage: &dyn RunnableStage) -> Result<()> {
        self.run_with(|stage, cx| stage.run(cx), stage)
    }

    /// Runs `stage` on this host by a function, as the engine runs it.
    pub fn run_with<S: ?Sized>(
        &mut self,
        run: impl FnOnce(&S, &mut StageContext<'_>) -> Result<()>,
        stage: &S,
    ) -> Result<()> {
        self.next_batch.clear();
        self.input_tables.values().flatten().for_each(assert_digests);
        run(stage, self)
    }

    /// Reads all batches of an input.
    fn all_batches(&mut self, input: &str) -> Result<Vec<RecordBatch>> {
        let host: &mut StageContext<'_> = self;
        host.read_all(input)
    }

    fn cancel_after(&self, calls: usize, limit: Option<usize>) {
        if limit == Some(calls) {
            self.resources.0.cancel.cancel();
        }
    }

    /// Returns the rows written to `output`, in one batch.
    ///
    /// # Panics
    /// Nothing was written.
    pub fn output(&self, output: &str) -> RecordBatch {
        let batches = self.output_tables.get(output).unwrap_or_else(|| panic!("nothing written to `{output}`"));
        concat_batches(batches[0].schema_ref(), batches).expect("batches of one table have one schema")
    }
}

impl StageHost for InMemoryHost {
    fn read_next(&mut self, input: &str) -> Result<Option<RecordBatch>> {
        self.resources.0.cancel.check()?;
        let batches = self.input_tables.get(input).ok_or_else(|| Error::internal(format!("no input `{input}`")))?;
        let at = self.next_batch.entry(input.to_owned()).or_default();
        let next = batches.get(*at).cloned();
        *at = if next.is_some() { *at + 1 } else { 0 };
        Ok(next)
    }
    fn shards(&mut self, input: &str) -> Result<TableShards> {
        Ok(TableShards::in_memory(input, self.all_batches(input)?))
    }
    fn file(&mut self, input: &str, name: &str) -> Result<Bytes> {
        let key = (input.to_owned(), name.to_owned());
        self.input_files.get(&key).cloned().ok_or_else(|| Error::data(format!("no file `{name}` in `{input}`")))
    }
    fn path(&self, input: &str) -> Result<Option<PathBuf>> {
        Ok(self.source_paths.get(input).cloned())
    }
    fn store_folder(&self) -> Option<&Path> {
        None
    }
    fn objects(&self, input: &str) -> Result<Option<ObjectStorage>> {
        Ok(self.buckets.get(input).cloned())
    }
    fn lineage(&self) -> Result<StageLineage> {
        Ok(self.lineage.clone())
    }
    fn write(&mut self, output: &str, batch: RecordBatch) -> Result<()> {
        self.resources.0.cancel.check()?;
        self.output_tables.entry(output.to_owned()).or_default().push(batch);
        Ok(())
    }
    fn map(&mut self, over: MapInput<'_>, output: &str, size: usize, function: &MapFn<'_>) -> Result<MapSummary> {
        let (count, all) = match over {
            MapInput::Range(count) => (count, None),
            MapInput::Table(input) => {
                let batches = self.all_batches(input)?;
                let Some(first) = batches.first() else { return Ok(MapSummary::default()) };
                let all = concat_batches(first.schema_ref(), &batches)?;
                (all.num_rows(), Some(all))
            }
        };
        let mut summary = MapSummary { inputs: count as u64, ..MapSummary::default() };
        for start in (0..count).step_by(size) {
            let range = start..count.min(start + size);
            let rows = match &all {
                Some(all) => all.slice(start, range.len()),
                None => RecordBatch::new_empty(Schema::empty().into()),
            };
            let mapped = function(&MapBlock { range, rows })?;
            let MappedRows::New(batch) = mapped.rows else {
                return Err(Error::internal("a part of an earlier result, of which there are none"));
            };
            summary.rows += batch.num_rows() as u64;
            summary.warnings.extend(mapped.warnings.iter().cloned());
            self.warnings.extend(mapped.warnings);
            self.write(output, batch)?;
        }
        summary.warnings.truncate(MapSummary::WARNINGS);
        Ok(summary)
    }
    fn earlier_rows(&mut self, _output: &str, _not_of_rows: &[&str]) -> Result<SharedEarlierRows> {
        Ok(None)
    }
    fn file_keys(&mut self, _input: &str) -> Result<FileKeys> {
        Ok(FileKeys::default())
    }
    fn put_file(&mut self, output: &str, name: &str, content: Bytes) -> Result<()> {
        self.resources.0.cancel.check()?;
        self.output_files.insert((output.to_owned(), name.to_owned()), content);
        Ok(())
    }
    fn cached(&mut self, name: &str, settings: &serde_json::Value) -> Result<Option<Arc<Shard>>> {
        Ok(self.cached.get(&format!("{name} {settings}")).cloned())
    }
    fn cache(&mut self, name: &str, settings: &serde_json::Value, batch: RecordBatch) -> Result<Arc<Shard>> {
        self.resources.0.cancel.check()?;
        let shard = Arc::new(Shard::from_batch(&batch)?);
        self.n_cached += 1;
        self.cancel_after(self.n_cached, self.cancel_after_cache);
        self.cached.insert(format!("{name} {settings}"), Arc::clone(&shard));
        Ok(shard)
    }
    fn saved_state(&mut self) -> Result<Option<Bytes>> {
        Ok(self.saved_state.clone())
    }
    fn save_state(&mut self, state: Bytes, _last: usize) -> Result<()> {
        self.resources.0.cancel.check()?;
        self.saved_state = Some(state);
        self.n_saves += 1;
        self.cancel_after(self.n_saves, self.cancel_after_save);
        Ok(())
    }
    fn emit(&mut self, event: StageEvent) {
        match event {
            StageEvent::Warning(warning) => self.warnings.push(warning),
            StageEvent::Stalls(stalls) => self.stalls = stalls,
            StageEvent::Validated(scores) => self.validations.push(scores),
            StageEvent::Progress(_) | StageEvent::Trained(_) => {}
        }
    }
    fn resources(&self) -> &Resources {
        &self.resources.0
    }
    fn wait_for_exclusive(&mut self) -> Result<()> {
        Ok(())
    }
    fn process_group(&mut self, requested: usize) -> Result<ProcessGroup> {
        match requested {
            1 => Ok(ProcessGroup::single()),
            requested => Err(Error::internal(format!("{requested} ranks on a host with one"))),
        }
    }
}

/// Asserts that images of a table have their digests, as those that `ingest` writes.
fn assert_digests(batch: &RecordBatch) {
    let (Some(bytes), Some(digests)) = (batch.column_by_name("bytes"), batch.column_by_name("digest")) else { return };
    assert_eq!(
        digests.as_string::<i32>(),
        &picture_digests(bytes.as_binary()),
        "a column `digest` that no `ingest` writes"
    );
}

/// Checks resuming: a run that is cancelled after a saved state and resumed from it must write the same files, and the
/// same rows of `tables`, as an uninterrupted run. Cancels after every saved state in turn, and returns the number of
/// states.
///
/// # Panics
/// The files or rows differ, or a run fails.
pub fn check_resume_after_every_save(
    run: impl Fn(&mut InMemoryHost) -> Result<()>,
    host: impl Fn() -> InMemoryHost,
    tables: &[&str],
) -> usize {
    let mut whole = host();
    run(&mut whole).expect("a run");
    assert!(whole.n_saves > 0);
    for cut in 1..=whole.n_saves {
        let mut first = host();
        first.cancel_after_save = Some(cut);
        assert_eq!(run(&mut first).expect_err("cancelled").category(), ErrorCategory::Interrupted);
        let mut second = host();
        second.saved_state.clone_from(&first.saved_state);
        run(&mut second).expect("the rest of a run");
        for &table in tables {
            let parts =
                [&first, &second].into_iter().flat_map(|host| host.output_tables.get(table).into_iter().flatten());
            let parts: Vec<RecordBatch> = parts.cloned().collect();
            let rows = concat_batches(&parts[0].schema(), &parts).expect("one schema");
            assert_eq!(rows, whole.output(table), "{table}, cut {cut}");
        }
        assert_eq!(second.output_files, whole.output_files, "cut {cut}");
    }
    whole.n_saves
}
