//! Execution of a plan: runs the stages whose results are missing, each on its own thread, as the schedule says. A stage
//! waits for its inputs when it reads them. The record of a run is written at its start, and completed at its end.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use crate::event::{Event, Observer, ROWS};
use crate::inputs::{CacheOptions, LazyCache, OpenInput, StageInputs, TableReader};
use crate::map::MemoryBudget;
use crate::ranks::{RankCoordinator, RankOptions, WorkerGroup, plan_description};
use crate::schedule::{ExclusiveQueue, Schedule};
use crate::sources::{self, SourceDigest, SourceReading};
use crate::stage_host::{EngineHost, RunContext};
use crate::status::{StageStatus, stage_statuses};
use crate::writer::{ArtefactCommitter, ArtefactFeed, TableWriter};
use pairloom_base::error::{Error, ErrorCategory, Result, catch_panic};
use pairloom_base::runtime::{CancelToken, Device, RemoteTasks, Resources, Stalls, version_and_build};
use pairloom_stage::plan::{Plan, PlanNode};
use pairloom_stage::{InputOrigin, OutputKind, RunStage, Stage, StageEvent, StageHost, StageInput, TableRef, Warning};
use pairloom_store::claim::{StoreLock, check_conditional_writes, claim_artefact, lock_for_run};
use pairloom_store::journal::{self, CommittedContent};
use pairloom_store::key::InputIdentity;
use pairloom_store::record::{RunCommand, RunOutcome, RunRecord, StageRecord};
use pairloom_store::{Artefact, Manifest, Presence, Store, with_checksum};

/// Runs every stage of the plan whose artefact is not in the store, by `run_stage`.
///
/// An error of a stage ends the run: the other stages are cancelled, and everything that was committed stays in the
/// store. With [`RunOptions::keep_going`] the stages that do not follow from the failed one run to their end. The error
/// is in the summary.
///
/// # Errors
/// The run could not start, for example because a source is missing or the store cannot be written.
pub fn execute<S: Stage>(
    plan: &Plan<S>,
    run_stage: RunStage<S>,
    store: &Store,
    options: &RunOptions,
    cancel: &CancelToken,
    observer: &Observer<'_>,
) -> Result<RunSummary> {
    let mut coordinator =
        RankCoordinator { options: &options.ranks, description: plan_description(plan), worker_group: None };
    if let Some(environment) = &options.ranks.environment {
        coordinator.worker_group =
            Some(WorkerGroup::connect(&options.ranks, environment, Ok(&coordinator.description), cancel)?);
    }
    let summary = execute_stages(plan, run_stage, store, options, cancel, observer, &coordinator);
    if let Some(group) = &coordinator.worker_group {
        group.end_run(match &summary {
            Ok(RunSummary { error: Some(error), .. }) | Err(error) => Err(error),
            Ok(_) => Ok(()),
        });
    }
    summary
}

#[expect(clippy::disallowed_methods, reason = "the engine measures wall time")]
fn execute_stages<S: Stage>(
    plan: &Plan<S>,
    run_stage: RunStage<S>,
    store: &Store,
    options: &RunOptions,
    cancel: &CancelToken,
    observer: &Observer<'_>,
    coordinator: &RankCoordinator<'_>,
) -> Result<RunSummary> {
    let started = Instant::now();
    check_conditional_writes(store)?;
    let _store_lock = hold_store(store, cancel, observer)?;
    let statuses =
        stage_statuses(plan, store, options.pipeline_identity(), options.source_reading(), cancel, observer)?;
    let mut record = begin_record(&statuses, store, options, observer)?;
    let budget = MemoryBudget::new(options.memory);
    // Cancelled by the first failure, so that the other stages stop. The caller's token stays as it is.
    let stop = cancel.child();
    let cache = LazyCache::new(&options.cache);
    let exclusive_queue = &Arc::new(ExclusiveQueue::new(options.jobs));
    let run = RunContext {
        budget: &budget,
        cache: &cache,
        coordinator,
        exclusive_queue,
        observer,
        store,
        statuses: &statuses,
    };
    let resources = Resources {
        threads: options.threads,
        device: options.device,
        cancel: stop.clone(),
        remote: options.remote.clone(),
    };
    let feeds: HashMap<String, Arc<ArtefactFeed>> =
        statuses.iter().map(|status| (status.name.clone(), Arc::default())).collect();
    let locations = output_locations(plan, &statuses, store, &feeds);
    let mut results: Vec<(String, StageResult)> = Vec::new();
    for (status, manifest) in statuses.iter().filter_map(|status| Some((status, status.reused()?))) {
        feeds[&status.name].complete(manifest.tables.clone(), manifest.files.clone());
        results.push((status.name.clone(), Ok((manifest.clone(), None))));
    }
    let mut schedule = Schedule::new(plan, options.jobs, |i| statuses[i].is_reuse());
    std::thread::scope(|scope| -> Result<()> {
        let (ended, ends) = std::sync::mpsc::channel();
        loop {
            // After a cancellation, what runs comes to its end and nothing starts.
            let ready = if stop.check().is_ok() { schedule.start_ready() } else { Vec::new() };
            for i in ready {
                let (node, status, ended) = (&plan.stages()[i], &statuses[i], ended.clone());
                let feed = Arc::clone(&feeds[&status.name]);
                let threads = if schedule.is_instance(i) { options.instance_threads() } else { options.threads };
                let resources = Resources { threads, ..resources.clone() };
                let (locations, stop) = (&locations, &stop);
                let work = move || {
                    let mut result = catch_panic(|| {
                        build_stage((node, run_stage), status, store, locations, &feed, run, &resources)
                    });
                    if let Err(error) = &result {
                        feed.fail();
                        if !options.keep_going {
                            stop.cancel();
                        }
                        let interrupted = error.category() == ErrorCategory::Interrupted;
                        let (stage, error) = (status.name.clone(), error.to_string());
                        let event = Event::StageFailed { stage, error, interrupted };
                        // A panic that ended the thread here would leave the receiver waiting.
                        let told = catch_panic(|| {
                            observer(&event);
                            Ok(())
                        });
                        if let Err(panic) = told {
                            stop.cancel();
                            result = Err(panic);
                        }
                    }
                    // The receiver waits for every stage that runs.
                    let _ = ended.send((i, result));
                };
                let thread = std::thread::Builder::new().name(format!("stage {}", status.name));
                thread.spawn_scoped(scope, work).map_err(|error| Error::internal(format!("no thread: {error}")))?;
            }
            if !schedule.is_running() {
                return Ok(());
            }
            let Ok((i, result)) = ends.recv() else { return Ok(()) };
            schedule.end(i, result.is_ok());
            results.push((statuses[i].name.clone(), result));
        }
    })?;
    if schedule.is_waiting()
        && let Err(interruption) = cancel.check()
    {
        // No stage that ran may have noticed.
        results.push((String::new(), Err(interruption)));
    }
    finish_record(&mut record, store, &budget, observer, results, started.elapsed().as_secs_f64())
}

/// Keeps results from being removed until the lock is dropped. Waits while another process removes some.
///
/// # Errors
/// The store cannot be written, or `cancel` is cancelled.
pub fn hold_store(store: &Store, cancel: &CancelToken, observer: &Observer<'_>) -> Result<StoreLock> {
    lock_for_run(store, cancel, &|waiting_for| observer(&Event::Waiting { waiting_for }))
}

/// Finishes a run if the results of all stages are in the store already; `None` if there is something to run.
///
/// Runs no stage, so a program without libtorch can call it.
pub fn finish_reused(
    statuses: &[StageStatus],
    store: &Store,
    options: &RunOptions,
    observer: &Observer<'_>,
) -> Result<Option<RunSummary>> {
    let manifest = |status: &StageStatus| Some((status.name.clone(), Ok((status.reused()?.clone(), None))));
    let Some(results) = statuses.iter().map(manifest).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let mut record = begin_record(statuses, store, options, observer)?;
    finish_record(&mut record, store, &MemoryBudget::new(options.memory), observer, results, 0.0).map(Some)
}

/// Artefact and feed from which other stages read an output.
struct OutputLocation {
    artefact: Artefact,
    feed: Arc<ArtefactFeed>,
    /// Folder that paths in the table are relative to.
    root: Option<SourceDigest>,
}

/// Locations of all outputs of the plan, by names of stage and output.
fn output_locations<S: Stage>(
    plan: &Plan<S>,
    statuses: &[StageStatus],
    store: &Store,
    feeds: &HashMap<String, Arc<ArtefactFeed>>,
) -> HashMap<(String, String), OutputLocation> {
    let mut locations = HashMap::new();
    for (node, status) in plan.stages().iter().zip(statuses) {
        let inputs = node.stage.inputs();
        for output in node.stage.outputs() {
            let root = match &output.kind {
                OutputKind::Table { root: Some(root), .. } => inputs.iter().find(|input| input.name == *root),
                _ => None,
            };
            let root = root.and_then(|input| source_digest(input, status));
            let location =
                OutputLocation { artefact: status.artefact(store), feed: Arc::clone(&feeds[&status.name]), root };
            locations.insert((status.name.clone(), output.name.to_owned()), location);
        }
    }
    locations
}

/// Source that an input reads, with its digest at the start of the run.
fn source_digest(input: &StageInput, status: &StageStatus) -> Option<SourceDigest> {
    let InputOrigin::Source(source) = &input.origin else { return None };
    let InputIdentity::Source(digest) = status.identity.inputs.get(&input.name)? else { return None };
    Some(SourceDigest { path: source.path().to_owned(), digest: digest.clone() })
}

/// Checks that the sources that a stage has read, and the files that its tables name, are those of the start of the run.
/// If they are not, nothing of its result is kept: rows of different contents may be in it.
fn check_sources<S: Stage>(
    node: &PlanNode<S>,
    status: &StageStatus,
    store: &Store,
    locations: &HashMap<(String, String), OutputLocation>,
    resources: &Resources,
    observer: &Observer<'_>,
) -> Result<()> {
    for input in node.stage.inputs() {
        let source = match &input.origin {
            InputOrigin::Source(_) => source_digest(&input, status),
            InputOrigin::Table { from, .. } => {
                let location = locations.get(&(from.stage().to_owned(), from.table().to_owned()));
                location.and_then(|location| location.root.clone())
            }
            InputOrigin::Files { .. } => None,
        };
        let Some(source) = source else { continue };
        let checked = sources::check_unchanged(store, &source, resources.threads, &resources.cancel, observer);
        if let Err(error) = checked {
            if error.category() != ErrorCategory::Interrupted {
                status.artefact(store).clear()?;
            }
            return Err(error.context(format!("`{}`", input.name)));
        }
    }
    Ok(())
}

/// Claims the artefact of a stage and runs the stage, unless another process has built the artefact meanwhile.
#[expect(clippy::disallowed_methods, reason = "the engine measures wall time")]
fn build_stage<S: Stage>(
    (node, run_stage): (&PlanNode<S>, RunStage<S>),
    status: &StageStatus,
    store: &Store,
    locations: &HashMap<(String, String), OutputLocation>,
    feed: &Arc<ArtefactFeed>,
    run: RunContext<'_>,
    run_resources: &Resources,
) -> StageResult {
    let started = Instant::now();
    // Cancelled when another rank of this stage fails.
    let resources = Resources { cancel: run_resources.cancel.child(), ..run_resources.clone() };
    let artefact = status.artefact(store);
    let (stage, kind, key) = (status.name.clone(), status.kind.clone(), status.key.to_string());
    let waiting = |process: String| {
        let waiting_for = Some(format!("{process}, which builds it"));
        let (stage, unit) = (stage.clone(), ROWS.to_owned());
        (run.observer)(&Event::Progress { stage, done: 0, total: None, unit, waiting_for });
    };
    let claim = claim_artefact(store, &artefact, &resources.cancel, &waiting)?;
    match artefact.presence()? {
        Presence::Complete(manifest) => {
            // Another process has built it while this one waited.
            feed.complete(manifest.tables.clone(), manifest.files.clone());
            (run.observer)(&Event::StageReused { stage, kind, key, rows: manifest.rows() });
            return Ok((*manifest, None));
        }
        Presence::Damaged(_) => artefact.clear()?,
        Presence::Absent => {}
    }
    let (committed, warnings) = resume_from_journal(&artefact, status, &resources)?;
    let reasons = status.reasons.clone();
    (run.observer)(&Event::StageStarted { stage, kind, key, resumed_rows: committed.rows(), reasons });
    for (table, parts) in &committed.tables {
        for part in parts {
            feed.publish_part(table, part.clone());
        }
    }
    let (tables, files) = open_outputs(node, &committed);
    let feed = Arc::clone(feed);
    let committer = ArtefactCommitter {
        stage: status.name.clone(),
        artefact,
        claim: &claim,
        committed,
        removed: BTreeSet::new(),
        feed,
        observer: run.observer,
    };
    let inputs = StageInputs { stage: status.name.clone(), inputs: open_inputs(node, locations, &resources.cancel)? };
    let mut host = EngineHost::new(run, resources, status, inputs, tables, files, committer);
    for warning in warnings {
        host.emit(StageEvent::Warning(warning));
    }
    let result = run_stage(&node.stage, &mut host);
    match host.job.take() {
        Some(job) => job.finish(result, &run_resources.cancel)?,
        None => result?,
    }
    host.finish()?;
    check_sources(node, status, store, locations, run_resources, run.observer)?;
    let seconds = started.elapsed().saturating_sub(host.waited).as_secs_f64();
    let (stalls, copied) = (host.stalls, host.copied);
    let manifest = publish_manifest(host, status, seconds)?;
    let (rows, bytes, warnings) = (manifest.rows(), manifest.bytes(), manifest.warnings.len() as u64);
    (run.observer)(&Event::StageFinished { stage: status.name.clone(), rows, copied, bytes, seconds, warnings });
    Ok((manifest, Some((seconds, stalls))))
}

/// Restores the committed content of an unfinished artefact. The warnings name damaged states that were skipped, and
/// say so if threads or device differ from those that the artefact was started with.
fn resume_from_journal(
    artefact: &Artefact,
    status: &StageStatus,
    resources: &Resources,
) -> Result<(CommittedContent, Vec<Warning>)> {
    artefact.remove_partial_writes()?;
    let (committed, mut messages) = journal::replay_for_resume(artefact)?;
    journal::truncate(artefact, committed.entries)?;
    let resources_text = format!("{} threads on {}", resources.threads, resources.device);
    if !artefact.create("resources", resources_text.clone().into())?
        && let Some(before) = artefact.get("resources")?.filter(|before| *before != resources_text)
    {
        let before = String::from_utf8_lossy(&before).into_owned();
        messages.push(format!(
            "started with {before} and finished with {resources_text}: numbers may differ in their last bits"
        ));
    }
    let warnings = messages.into_iter().map(|message| Warning { subject: status.name.clone(), message });
    Ok((committed, warnings.collect()))
}

/// Opens a writer for each table of a stage, positioned after the committed rows. Also returns the names of the files
/// outputs.
fn open_outputs<S: Stage>(
    node: &PlanNode<S>,
    committed: &CommittedContent,
) -> (BTreeMap<&'static str, TableWriter>, Vec<&'static str>) {
    let mut tables = BTreeMap::new();
    let mut files = Vec::new();
    for output in node.stage.outputs() {
        match output.kind {
            OutputKind::Table { schema, part_rows, .. } => {
                let parts = committed.tables.get(output.name).map_or(&[][..], Vec::as_slice);
                let before_state = committed.states.last().and_then(|state| state.parts.get(output.name)).copied();
                let rows = |parts: &[pairloom_store::Part]| parts.iter().map(|part| part.rows).sum();
                let position = rows(&parts[..before_state.unwrap_or(0)]);
                tables.insert(output.name, TableWriter::new(output.name, schema, part_rows, position, rows(parts)));
            }
            OutputKind::Files => files.push(output.name),
        }
    }
    (tables, files)
}

/// Opens the inputs of a stage.
fn open_inputs<S: Stage>(
    node: &PlanNode<S>,
    locations: &HashMap<(String, String), OutputLocation>,
    cancel: &CancelToken,
) -> Result<BTreeMap<String, OpenInput>> {
    let location = |from: &TableRef| {
        let location = locations.get(&(from.stage().to_owned(), from.table().to_owned()));
        location.ok_or_else(|| Error::internal(format!("no stage writes `{from}`")))
    };
    let mut inputs = BTreeMap::new();
    for input in node.stage.inputs() {
        let opened = match &input.origin {
            InputOrigin::Source(source) => OpenInput::Source(source.path().to_owned()),
            InputOrigin::Table { from, .. } => {
                let OutputLocation { artefact, feed, root } = location(from)?;
                let (name, table) = (from.to_string(), from.table().to_owned());
                let reader = TableReader::new(name, artefact.clone(), table, Arc::clone(feed), cancel.clone());
                OpenInput::Table(Box::new(reader), root.as_ref().map(|root| root.path.clone()))
            }
            InputOrigin::Files { from, .. } => {
                let OutputLocation { artefact, feed, .. } = location(from)?;
                let (name, output) = (from.to_string(), from.table().to_owned());
                OpenInput::Files { name, artefact: artefact.clone(), output, feed: Arc::clone(feed) }
            }
        };
        inputs.insert(input.name, opened);
    }
    Ok(inputs)
}

/// Writes the manifest, which completes the artefact, and removes the objects that only a resumed run needs.
fn publish_manifest(host: EngineHost<'_>, status: &StageStatus, seconds: f64) -> Result<Manifest> {
    let EngineHost { mut committer, warnings, files, .. } = host;
    for output in files {
        if !committer.committed.files.contains_key(output) {
            return Err(Error::internal(format!("stage `{}` wrote no file of `{output}`", status.name)));
        }
    }
    let mut all = committer.committed.warnings.clone();
    all.extend(warnings);
    let row_keys = committer.commit_row_keys()?;
    let manifest = Manifest {
        identity: status.identity.clone(),
        tables: committer.committed.tables.clone(),
        files: committer.committed.files.clone(),
        row_keys,
        warnings: all,
        seconds,
        finished: jiff::Timestamp::now(),
        pairloom: version_and_build().to_owned(),
    };
    let content = with_checksum(&manifest)?;
    if let Some(marker) = committer.artefact.get("damaged")? {
        // A reader found the damage while this stage was still running.
        let problem = String::from_utf8_lossy(&marker).into_owned();
        return Err(Error::data(format!("a part or file that it wrote is damaged: {problem}"))
            .hint("run the same command again: it rebuilds damaged results"));
    }
    committer.claim.publish_last(&committer.artefact, "manifest.json", content.into())?;
    committer.feed.complete(manifest.tables.clone(), manifest.files.clone());
    // These objects are not needed any more. Best effort.
    let leftovers = committer.artefact.list("").unwrap_or_default();
    let leftovers = leftovers.into_iter().filter(|name| {
        ["journal/", "state-", "shared/"].iter().any(|start| name.starts_with(start))
            || ["resources", "ranks", "builder"].contains(&name.as_str())
    });
    let _ = committer.artefact.delete_all(leftovers);
    Ok(manifest)
}

/// Options of a run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Name of the pipeline file, for the record of the run.
    pub pipeline: String,
    /// Rest of the command line, for the record of the run.
    pub command: RunCommand,
    /// Number of threads that a stage may keep busy.
    pub threads: usize,
    /// Number of instances of stages of the matrix that run at the same time and share the threads.
    pub jobs: usize,
    /// True if a run goes on with the stages that do not follow from one that failed.
    pub keep_going: bool,
    /// True if folders with their former times count as unchanged, without a look at their files.
    pub trust_folder_times: bool,
    /// Maximum number of bytes in flight between threads.
    pub memory: u64,
    /// Device of the tensors.
    pub device: Device,
    /// Location and size of the cache of shards.
    pub cache: CacheOptions,
    /// Options for stages that run in several processes.
    pub ranks: RankOptions,
    /// Processes of a cluster that compute parts of a stage.
    pub remote: Option<Arc<dyn RemoteTasks>>,
}

impl RunOptions {
    /// Number of threads that an instance of a stage may keep busy.
    #[must_use]
    pub fn instance_threads(&self) -> usize {
        (self.threads / self.jobs.max(1)).max(1)
    }

    /// Way of reading sources at the start of a run.
    #[must_use]
    pub fn source_reading(&self) -> SourceReading {
        SourceReading { threads: self.threads, trusts_folder_times: self.trust_folder_times }
    }

    /// Identity of the pipeline, as [`RunCommand::pipeline_identity`] gives it.
    #[must_use]
    pub fn pipeline_identity(&self) -> &str {
        self.command.pipeline_identity(&self.pipeline)
    }
}

/// Result of a run.
#[derive(Debug)]
pub struct RunSummary {
    /// Record of the run, which is in the store already.
    pub record: RunRecord,
    /// Manifest of each finished stage, by name of the stage.
    pub manifests: BTreeMap<String, Manifest>,
    /// Peak number of bytes in flight between threads.
    pub peak_bytes_in_flight: u64,
    /// Error that ended the run, if any.
    pub error: Option<Error>,
}

/// Writes the record of a new run, and reports the stages whose results are reused.
pub(super) fn begin_record(
    statuses: &[StageStatus],
    store: &Store,
    options: &RunOptions,
    observer: &Observer<'_>,
) -> Result<RunRecord> {
    let mut record = RunRecord::start(&options.pipeline, options.command.clone());
    record.name_after_others(store)?;
    record.stages = statuses
        .iter()
        .map(|status| StageRecord {
            name: status.name.clone(),
            coordinates: status.coordinates.clone(),
            kind: status.kind.clone(),
            key: status.key.clone(),
            identity: Some(status.identity.clone()),
            tables: status.tables.clone(),
            sources: status.sources.clone(),
            warnings: status.warnings.clone(),
            reused: status.is_reuse(),
            seconds: None,
            stalls: None,
        })
        .collect();
    if !statuses.iter().all(StageStatus::is_reuse) {
        record.save(store)?;
    }
    let stages = statuses.iter().map(|status| status.name.clone()).collect();
    observer(&Event::RunStarted { run: record.run.clone(), pipeline: record.pipeline.clone(), stages });
    for status in statuses {
        if let Some(manifest) = status.reused() {
            let (stage, kind, key) = (status.name.clone(), status.kind.clone(), status.key.to_string());
            observer(&Event::StageReused { stage, kind, key, rows: manifest.rows() });
        }
    }
    Ok(record)
}

/// Result of a stage: its manifest and, if it ran, the seconds it took and its data stalls.
pub(super) type StageResult = Result<(Manifest, Option<(f64, Option<Stalls>)>)>;

/// Completes and writes the record of a run, and returns the summary.
pub(super) fn finish_record(
    record: &mut RunRecord,
    store: &Store,
    budget: &MemoryBudget,
    observer: &Observer<'_>,
    results: Vec<(String, StageResult)>,
    seconds: f64,
) -> Result<RunSummary> {
    let mut manifests = BTreeMap::new();
    let mut first: Option<Error> = None;
    let mut failed = 0;
    for (name, result) in results {
        failed += usize::from(matches!(&result, Err(error) if error.category() != ErrorCategory::Interrupted));
        match result {
            Ok((manifest, ran)) => {
                if let Some(stage) = record.stages.iter_mut().find(|stage| stage.name == name) {
                    stage.seconds = ran.map(|(seconds, _)| seconds);
                    stage.stalls = ran.and_then(|(_, stalls)| stalls);
                    // Another process, or another stage of the same key, may have built it while this one waited.
                    stage.reused = ran.is_none();
                }
                manifests.insert(name, manifest);
            }
            // Interruptions are consequences of the first other error, if there is one.
            Err(error) if first.as_ref().is_none_or(|first| first.category() == ErrorCategory::Interrupted) => {
                first = Some(if error.category() == ErrorCategory::Interrupted {
                    error
                } else {
                    error.context(format!("stage `{name}`"))
                });
            }
            Err(_) => {}
        }
    }
    if failed > 1 {
        first = first.map(|error| error.context(format!("{failed} stages failed, first")));
    }
    record.finished = Some(jiff::Timestamp::now());
    record.error = first.as_ref().map(ToString::to_string);
    record.outcome = match &first {
        None => RunOutcome::Finished,
        Some(error) if error.category() == ErrorCategory::Interrupted => RunOutcome::Interrupted,
        Some(_) => RunOutcome::Failed,
    };
    let saved = record.save(store);
    if first.is_none() {
        saved?;
    }
    let outcome = serde_json::json!(record.outcome).as_str().unwrap_or_default().to_owned();
    let peak = budget.peak();
    observer(&Event::RunFinished { run: record.run.clone(), seconds, outcome, peak_bytes_in_flight: peak });
    Ok(RunSummary { record: record.clone(), manifests, peak_bytes_in_flight: peak, error: first })
}
