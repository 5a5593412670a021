//! Stage host of the engine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use bytes::Bytes;
use serde_json::Value;

use crate::earlier_rows::stored_rows;
use crate::event::Observer;
use crate::event::{ProgressReporter, ROWS, now};
use crate::inputs::LazyCache;
use crate::inputs::OnWait;
use crate::inputs::StageInputs;
use crate::map::MemoryBudget;
use crate::map::ParallelMap;
use crate::ranks::{JobRequest, RankCoordinator, RunningJob, SharedParts};
use crate::schedule::{ExclusiveQueue, ExclusiveTicket, ThreadShare};
use crate::status::StageStatus;
use crate::status::stage_lineage;
use crate::writer::{ArtefactCommitter, TableWriter};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::{ProcessGroup, Resources, Stalls};
use pairloom_stage::{
    FileKeys, MapFn, MapInput, MapSummary, Progress, SharedEarlierRows, StageEvent, StageHost, StageLineage, Warning,
};
use pairloom_storage::objects::ObjectStorage;
use pairloom_storage::shard::Shard;
use pairloom_storage::table_shards::TableShards;
use pairloom_store::Store;
use pairloom_store::journal::SavedState;
use pairloom_store::key::ArtefactIdentity;

/// References that all stages of a run share.
#[derive(Clone, Copy)]
pub(super) struct RunContext<'e> {
    pub budget: &'e MemoryBudget,
    pub cache: &'e LazyCache<'e>,
    pub coordinator: &'e RankCoordinator<'e>,
    pub exclusive_queue: &'e Arc<ExclusiveQueue>,
    pub observer: &'e Observer<'e>,
    pub store: &'e Store,
    /// All stages of the plan.
    pub statuses: &'e [StageStatus],
}

/// Stage host of a stage that the engine runs.
pub(super) struct EngineHost<'e> {
    run: RunContext<'e>,
    resources: Resources,
    identity: &'e ArtefactIdentity,
    /// True for an instance of the matrix, which has a share of the threads.
    is_instance: bool,
    inputs: StageInputs,
    outputs: BTreeMap<&'static str, TableWriter>,
    pub files: Vec<&'static str>,
    pub committer: ArtefactCommitter<'e>,
    /// Number of rows that were copied from earlier results in this run.
    pub copied: u64,
    /// Warnings since the last saved state.
    pub warnings: Vec<Warning>,
    /// Time spent waiting for producers.
    pub waited: Duration,
    /// Data stalls, if the stage reported any.
    pub stalls: Option<Stalls>,
    /// The job on the other ranks, if the stage runs on several.
    pub job: Option<RunningJob>,
    exclusive_ticket: Option<ExclusiveTicket>,
    progress: ProgressReporter<'e>,
}

impl<'e> EngineHost<'e> {
    /// A host with these inputs and outputs.
    pub fn new(
        run: RunContext<'e>,
        resources: Resources,
        status: &'e StageStatus,
        inputs: StageInputs,
        outputs: BTreeMap<&'static str, TableWriter>,
        files: Vec<&'static str>,
        committer: ArtefactCommitter<'e>,
    ) -> Self {
        let progress = ProgressReporter::new(run.observer, committer.stage.clone());
        Self {
            run,
            resources,
            identity: &status.identity,
            is_instance: !status.coordinates.is_empty(),
            inputs,
            outputs,
            files,
            committer,
            copied: 0,
            warnings: vec![],
            waited: Duration::ZERO,
            stalls: None,
            job: None,
            exclusive_ticket: None,
            progress,
        }
    }

    /// Publishes the last part of every table.
    pub fn finish(&mut self) -> Result<()> {
        for writer in self.outputs.values_mut() {
            writer.finish(&mut self.committer)?;
        }
        if let Some(warning) = self.committer.warning_of_duplicates() {
            self.emit(StageEvent::Warning(warning));
        }
        self.progress.flush();
        Ok(())
    }

    /// Reads from the inputs. Counts the time from the first wait for a producer.
    fn read_inputs<T>(&mut self, read: impl FnOnce(&mut StageInputs, OnWait<'_>) -> Result<T>) -> Result<T> {
        let Self { inputs, progress, waited, .. } = self;
        let mut since = None;
        let result = read(inputs, &mut |name| {
            since.get_or_insert_with(now);
            progress.report_waiting(name);
        });
        *waited += since.map_or(Duration::ZERO, |since| since.elapsed());
        progress.report_working();
        result
    }

    fn undeclared_output(&self, output: &str) -> Error {
        Error::internal(format!("stage `{}` declares no output `{output}`", self.committer.stage))
    }
}

impl StageHost for EngineHost<'_> {
    fn read_next(&mut self, input: &str) -> Result<Option<RecordBatch>> {
        self.read_inputs(|inputs, waiting| inputs.read_next(input, waiting))
    }

    fn shards(&mut self, input: &str) -> Result<TableShards> {
        let cache = self.run.cache;
        self.read_inputs(|inputs, waiting| inputs.shards(input, cache, waiting))
    }

    fn file(&mut self, input: &str, name: &str) -> Result<Bytes> {
        let cancel = self.resources.cancel.clone();
        self.read_inputs(|inputs, waiting| inputs.read_file(input, name, &cancel, waiting))
    }

    fn path(&self, input: &str) -> Result<Option<PathBuf>> {
        self.inputs.path(input)
    }

    fn store_folder(&self) -> Option<&Path> {
        self.run.store.objects().folder()
    }

    fn objects(&self, input: &str) -> Result<Option<ObjectStorage>> {
        self.inputs.objects(input, self.run.store)
    }

    fn lineage(&self) -> Result<StageLineage> {
        Ok(stage_lineage(self.identity, self.run.statuses))
    }

    fn write(&mut self, output: &str, batch: RecordBatch) -> Result<()> {
        self.resources.cancel.check()?;
        let Some(writer) = self.outputs.get_mut(output) else { return Err(self.undeclared_output(output)) };
        writer.write(batch, &mut self.committer)?;
        if self.progress.latest.total.is_none() {
            let done = self.outputs.values().map(TableWriter::rows).sum();
            self.progress.report_progress(Progress { done, total: None, unit: ROWS });
        }
        Ok(())
    }

    fn map(&mut self, input: MapInput<'_>, output: &str, size: usize, function: &MapFn<'_>) -> Result<MapSummary> {
        let Self { run, resources, inputs, outputs, committer, progress, waited, job, copied, .. } = self;
        let Some(writer) = outputs.get_mut(output) else { return Err(self.undeclared_output(output)) };
        let (budget, size) = (run.budget, size.max(1));
        let group = job.as_ref().map(|job| &job.process_group);
        let shared = group.and_then(|group| SharedParts::of(&committer.artefact, output, group));
        let map = ParallelMap { budget, resources, progress, writer, committer, size, function, shared, copied };
        let inputs = match input {
            MapInput::Table(name) => {
                let (rows, first_wait) = map.map_rows(inputs.table_reader(name)?)?;
                *waited += first_wait;
                rows
            }
            MapInput::Range(count) => {
                map.map_range(count)?;
                count as u64
            }
        };
        let parts = committer.committed.tables.get(output).map_or(&[][..], Vec::as_slice);
        let warnings = committer.committed.warnings.iter().take(MapSummary::WARNINGS).cloned();
        Ok(MapSummary { inputs, rows: parts.iter().map(|part| part.rows).sum(), warnings: warnings.collect() })
    }

    fn earlier_rows(&mut self, output: &str, not_of_rows: &[&str]) -> Result<SharedEarlierRows> {
        Ok(stored_rows(self.run.store, self.identity, output, not_of_rows)?.shared())
    }

    fn file_keys(&mut self, input: &str) -> Result<FileKeys> {
        self.inputs.file_keys(input, self.run.store)
    }

    fn put_file(&mut self, output: &str, name: &str, content: Bytes) -> Result<()> {
        self.resources.cancel.check()?;
        if !self.files.contains(&output) || name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.') {
            return Err(self.undeclared_output(&format!("{output}/{name}")));
        }
        self.committer.commit_file(output, name, content)
    }

    fn cached(&mut self, name: &str, settings: &Value) -> Result<Option<Arc<Shard>>> {
        self.run.cache.get_rows(&self.identity.cache_name(name, settings), &self.resources.cancel)
    }

    fn cache(&mut self, name: &str, settings: &Value, batch: RecordBatch) -> Result<Arc<Shard>> {
        self.run.cache.insert_rows(&self.identity.cache_name(name, settings), batch, &self.resources.cancel)
    }

    fn saved_state(&mut self) -> Result<Option<Bytes>> {
        let Some(SavedState { file, .. }) = self.committer.committed.states.last() else { return Ok(None) };
        self.committer.artefact.read(&file.name, file.bytes, &file.digest).map(Some)
    }

    fn save_state(&mut self, state: Bytes, last: usize) -> Result<()> {
        self.resources.cancel.check()?;
        for writer in self.outputs.values_mut() {
            writer.flush(&mut self.committer)?;
        }
        self.committer.commit_state(state, std::mem::take(&mut self.warnings), last)
    }

    fn emit(&mut self, event: StageEvent) {
        match event {
            StageEvent::Warning(warning) => {
                self.progress.report_warning(&warning);
                self.warnings.push(warning);
            }
            StageEvent::Progress(progress) => self.progress.report_progress(progress),
            StageEvent::Stalls(stalls) => {
                self.stalls = Some(stalls);
                self.progress.report_stalls(stalls);
            }
            StageEvent::Trained(step) => self.progress.report_step(step),
            StageEvent::Validated(scores) => self.progress.report_validation(scores),
        }
    }

    fn resources(&self) -> &Resources {
        &self.resources
    }

    fn wait_for_exclusive(&mut self) -> Result<()> {
        let since = now();
        if self.exclusive_ticket.is_none() {
            let Self { run, resources, progress, is_instance, .. } = self;
            let share = if *is_instance { ThreadShare::OfInstance } else { ThreadShare::Whole };
            let waiting = &mut || progress.report_waiting("its turn: other stages use the threads");
            self.exclusive_ticket = Some(run.exclusive_queue.wait(share, &resources.cancel, waiting)?);
        }
        self.progress.report_working();
        self.waited += since.elapsed();
        Ok(())
    }

    fn process_group(&mut self, world_size: usize) -> Result<ProcessGroup> {
        if self.job.is_none() {
            let Self { run, resources, identity, inputs, committer, progress, .. } = self;
            let state = committer.committed.states.last().map(|state| state.file.clone());
            let committed = &committer.committed.tables;
            let committed = committed.iter().map(|(table, parts)| (table.clone(), parts.len())).collect();
            let request = JobRequest { identity, inputs, state, committed };
            if let Some((job, threads)) =
                run.coordinator.start_job(world_size, request, resources, &mut |name| progress.report_waiting(name))?
            {
                self.resources.threads = threads;
                self.job = Some(job);
            }
            self.progress.report_working();
        }
        Ok(self.job.as_ref().map_or_else(ProcessGroup::single, |job| job.process_group.clone()))
    }

    fn warn_of_other_ranks(&mut self, group: &ProcessGroup) -> Result<()> {
        let (artefact, world_size) = (&self.committer.artefact, Bytes::from(group.world_size.to_string()));
        if !artefact.create("ranks", world_size.clone())?
            && let Some(before) = artefact.get("ranks")?.filter(|before| *before != world_size)
        {
            let before = String::from_utf8_lossy(&before);
            let message =
                format!("started with {before}, now {}: numbers may differ in their last bits", group.world_size);
            self.emit(StageEvent::Warning(Warning { subject: "ranks".to_owned(), message }));
        }
        Ok(())
    }
}
