//! Runs what is missing of a plan: one thread a stage, all at once; each waits for its inputs by reading them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crate::engine::cache::{CachePlace, LazyCache};
use crate::engine::event::{Event, Observer};
use crate::engine::feed::Feed;
use crate::engine::flow::{Budget, caught};
use crate::engine::inputs::{Input, Inputs};
use crate::engine::ranks::{Crew, RankOptions, Together, description};
use crate::engine::reader::TableReader;
use crate::engine::status::{StageStatus, Verdict, status};
use crate::engine::world::{EngineWorld, Shared};
use crate::engine::writer::{Ledger, TableWriter};
use crate::error::{Error, Kind, Result};
use crate::plan::{Node, Plan};
use crate::runtime::{Cancel, Device, Resources, Stalls};
use crate::stage::{Form, Origin, Run, Stage, StageEvent, TableRef, Warning, World};
use crate::store::claim::{check_writable, claim, hold};
use crate::store::journal::{self, Committed};
use crate::store::record::{Outcome, RunRecord, StageRecord};
use crate::store::{Artefact, Manifest, Presence, Store};

/// How to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The pipeline file, for the record.
    pub pipeline: String,
    /// Threads that a stage may keep busy.
    pub threads: usize,
    /// Bytes that may be in flight between threads.
    pub memory: u64,
    /// Where tensors live.
    pub device: Device,
    /// Where shards are kept, and how many bytes of them.
    pub cache: CachePlace,
    /// How several processes work together.
    pub ranks: RankOptions,
}

/// What a run did.
#[derive(Debug)]
pub struct Summary {
    /// Its record, which is in the store already.
    pub record: RunRecord,
    /// What each finished stage holds, by name.
    pub manifests: BTreeMap<String, Manifest>,
    /// The most bytes that were in flight between threads.
    pub peak_bytes_in_flight: u64,
    /// The error that ended the run, if one did.
    pub error: Option<Error>,
}

/// Runs every stage of the plan whose artefact is not in the store.
///
/// A stage's error ends the run: the other stages are cancelled, and what all of them have committed stays. The error is
/// in the summary.
///
/// # Errors
/// The run could not even begin: a source is missing, the store cannot be written.
pub fn execute<S: Run>(
    plan: &Plan<S>,
    store: &Store,
    options: &Options,
    cancel: &Cancel,
    observer: &Observer<'_>,
) -> Result<Summary> {
    let mut together = Together { options: &options.ranks, description: description(plan), crew: None };
    if let Some(place) = &options.ranks.place {
        together.crew = Some(Crew::meet(&options.ranks, place, Ok(&together.description), cancel)?);
    }
    let summary = execute_together(plan, store, options, cancel, observer, &together);
    if let Some(crew) = &together.crew {
        crew.end(match &summary {
            Ok(Summary { error: Some(error), .. }) | Err(error) => Err(error),
            Ok(_) => Ok(()),
        });
    }
    summary
}

#[expect(clippy::disallowed_methods, reason = "the engine measures wall time")]
fn execute_together<S: Run>(
    plan: &Plan<S>,
    store: &Store,
    options: &Options,
    cancel: &Cancel,
    observer: &Observer<'_>,
    together: &Together<'_>,
) -> Result<Summary> {
    let started = Instant::now();
    check_writable(store)?;
    let _hold = hold(store, cancel)?;
    let statuses = status(plan, store, options.threads, cancel, observer)?;
    let mut record = begin(&statuses, store, options, observer)?;
    let budget = Budget::new(options.memory);
    // Raised by the first failure, so that the other stages stop; the caller's flag stays as it is.
    let stop = cancel.child();
    let cache = LazyCache::new(&options.cache);
    let turns = Arc::default();
    let shared = Shared { budget: &budget, cache: &cache, together, turns: &turns, observer };
    let resources = Resources { threads: options.threads, device: options.device, cancel: stop.clone() };
    let feeds: HashMap<String, Arc<Feed>> =
        statuses.iter().map(|status| (status.name.clone(), Arc::default())).collect();
    let places = places(plan, &statuses, store, &feeds);
    let mut ended: Vec<(String, Ended)> = Vec::new();
    std::thread::scope(|scope| -> Result<()> {
        let mut running = Vec::new();
        for (node, status) in plan.nodes().iter().zip(&statuses) {
            let feed = Arc::clone(&feeds[&status.name]);
            if let Verdict::Reuse(manifest) = &status.verdict {
                feed.complete(manifest.tables.clone(), manifest.files.clone());
                ended.push((status.name.clone(), Ok((manifest.as_ref().clone(), None))));
                continue;
            }
            let (places, stop, resources) = (&places, &stop, &resources);
            let work = move || {
                let result = caught(|| build(node, status, store, places, &feed, shared, resources));
                if let Err(error) = &result {
                    let interrupted = error.kind() == Kind::Interrupted;
                    let (stage, error) = (status.name.clone(), error.to_string());
                    observer(&Event::StageFailed { stage, error, interrupted });
                    feed.fail();
                    stop.cancel();
                }
                result
            };
            let thread = std::thread::Builder::new().name(format!("stage {}", status.name));
            let thread =
                thread.spawn_scoped(scope, work).map_err(|error| Error::internal(format!("no thread: {error}")))?;
            running.push((status.name.clone(), thread));
        }
        for (name, thread) in running {
            let joined = thread.join().unwrap_or_else(|_| Err(Error::internal("the thread of a stage panicked")));
            ended.push((name, joined));
        }
        Ok(())
    })?;
    conclude(&mut record, store, &budget, observer, ended, started.elapsed().as_secs_f64())
}

/// Finishes a run of which every stage is in the store already; `None` if there is something to run.
///
/// Needs no stage to be runnable, so a program without libtorch can do it.
///
/// # Errors
/// The store cannot be written.
pub fn reuse(
    statuses: &[StageStatus],
    store: &Store,
    options: &Options,
    observer: &Observer<'_>,
) -> Result<Option<Summary>> {
    let manifest = |status: &StageStatus| match &status.verdict {
        Verdict::Reuse(manifest) => Some((status.name.clone(), Ok((manifest.as_ref().clone(), None)))),
        _ => None,
    };
    let Some(ended) = statuses.iter().map(manifest).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let mut record = begin(statuses, store, options, observer)?;
    conclude(&mut record, store, &Budget::new(options.memory), observer, ended, 0.0).map(Some)
}

/// Writes the record of a run that begins, and tells what is there already.
fn begin(statuses: &[StageStatus], store: &Store, options: &Options, observer: &Observer<'_>) -> Result<RunRecord> {
    let mut record = RunRecord::begin(&options.pipeline);
    record.stages = statuses
        .iter()
        .map(|status| StageRecord {
            name: status.name.clone(),
            kind: status.kind.clone(),
            key: status.key.clone(),
            reused: status.is_reuse(),
            seconds: None,
            stalls: None,
        })
        .collect();
    if !statuses.iter().all(StageStatus::is_reuse) {
        record.save(store)?;
    }
    observer(&Event::RunStarted { run: record.run.clone(), pipeline: record.pipeline.clone() });
    for status in statuses {
        if let Verdict::Reuse(manifest) = &status.verdict {
            let (stage, kind, key) = (status.name.clone(), status.kind.clone(), status.key.to_string());
            observer(&Event::StageReused { stage, kind, key, rows: manifest.rows() });
        }
    }
    Ok(record)
}

/// How a stage ended: what it made, and if it ran, in how many seconds and what it waited for.
type Ended = Result<(Manifest, Option<(f64, Option<Stalls>)>)>;

/// Writes the record of a run that ends, and makes its summary.
fn conclude(
    record: &mut RunRecord,
    store: &Store,
    budget: &Budget,
    observer: &Observer<'_>,
    ended: Vec<(String, Ended)>,
    seconds: f64,
) -> Result<Summary> {
    let mut manifests = BTreeMap::new();
    let mut first: Option<Error> = None;
    for (name, result) in ended {
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
            // Interruptions follow from the one error that counts, if there is one.
            Err(error) if first.as_ref().is_none_or(|first| first.kind() == Kind::Interrupted) => {
                first = Some(if error.kind() == Kind::Interrupted {
                    error
                } else {
                    error.context(format!("stage `{name}`"))
                });
            }
            Err(_) => {}
        }
    }
    record.finished = Some(jiff::Timestamp::now());
    record.error = first.as_ref().map(ToString::to_string);
    record.outcome = match &first {
        None => Outcome::Finished,
        Some(error) if error.kind() == Kind::Interrupted => Outcome::Interrupted,
        Some(_) => Outcome::Failed,
    };
    let saved = record.save(store);
    if first.is_none() {
        saved?;
    }
    let outcome = serde_json::json!(record.outcome).as_str().unwrap_or_default().to_owned();
    let peak = budget.peak();
    observer(&Event::RunFinished { run: record.run.clone(), seconds, outcome, peak_bytes_in_flight: peak });
    Ok(Summary { record: record.clone(), manifests, peak_bytes_in_flight: peak, error: first })
}

/// Where an output of a stage is read.
struct Place {
    artefact: Artefact,
    feed: Arc<Feed>,
    /// The folder that paths in the table are relative to.
    root: Option<PathBuf>,
}

/// Where every output of the plan is read, by stage and output.
fn places<S: Stage>(
    plan: &Plan<S>,
    statuses: &[StageStatus],
    store: &Store,
    feeds: &HashMap<String, Arc<Feed>>,
) -> HashMap<(String, String), Place> {
    let mut places = HashMap::new();
    for (node, status) in plan.nodes().iter().zip(statuses) {
        let inputs = node.stage.inputs();
        for output in node.stage.outputs() {
            let root = match &output.form {
                Form::Table { root: Some(root), .. } => inputs.iter().find(|input| input.name == *root),
                _ => None,
            };
            let root = root.and_then(|input| match &input.origin {
                Origin::Source(source) => Some(source.path().to_owned()),
                _ => None,
            });
            let place = Place { artefact: status.artefact(store), feed: Arc::clone(&feeds[&status.name]), root };
            places.insert((status.name.clone(), output.name.to_owned()), place);
        }
    }
    places
}

/// Runs one stage to its end, or as far as it comes.
#[expect(clippy::disallowed_methods, reason = "the engine measures wall time")]
fn build<S: Run>(
    node: &Node<S>,
    status: &StageStatus,
    store: &Store,
    places: &HashMap<(String, String), Place>,
    feed: &Arc<Feed>,
    shared: Shared<'_>,
    of_run: &Resources,
) -> Ended {
    let started = Instant::now();
    // Raised when another rank of this stage fails.
    let resources = Resources { cancel: of_run.cancel.child(), ..of_run.clone() };
    let artefact = status.artefact(store);
    let (stage, kind, key) = (status.name.clone(), status.kind.clone(), status.key.to_string());
    let waiting = || {
        let waiting_for = Some("another process that builds it".to_owned());
        (shared.observer)(&Event::Progress { stage: stage.clone(), done: 0, total: None, waiting_for });
    };
    let claim = claim(store, &artefact, &resources.cancel, waiting)?;
    match artefact.presence()? {
        Presence::Complete(manifest) => {
            // Another process built it while this one waited.
            feed.complete(manifest.tables.clone(), manifest.files.clone());
            (shared.observer)(&Event::StageReused { stage, kind, key, rows: manifest.rows() });
            return Ok((*manifest, None));
        }
        Presence::Damaged(_) => artefact.clear()?,
        Presence::Absent => {}
    }
    let (committed, warnings) = resume(&artefact, status, &resources)?;
    (shared.observer)(&Event::StageStarted { stage, kind, key, resumed_rows: committed.rows() });
    for (table, parts) in &committed.tables {
        for part in parts {
            feed.part(table, part.clone());
        }
    }
    let (tables, files) = outputs(node, &committed);
    let feed = Arc::clone(feed);
    let ledger = Ledger {
        stage: status.name.clone(),
        artefact,
        claim: &claim,
        committed,
        removed: BTreeSet::new(),
        feed,
        observer: shared.observer,
    };
    let inputs = Inputs { stage: status.name.clone(), inputs: inputs(node, places, &resources.cancel)? };
    let mut world = EngineWorld::new(shared, resources, &status.identity, inputs, tables, files, ledger);
    for warning in warnings {
        world.emit(StageEvent::Warning(warning));
    }
    let result = node.stage.run(&mut world);
    match world.shift.take() {
        Some(shift) => shift.end(result, &of_run.cancel)?,
        None => result?,
    }
    world.finish()?;
    let seconds = started.elapsed().saturating_sub(world.waited).as_secs_f64();
    let stalls = world.stalls;
    let manifest = publish(world, status, seconds)?;
    let (rows, bytes, warnings) = (manifest.rows(), manifest.bytes(), manifest.warnings.len() as u64);
    (shared.observer)(&Event::StageFinished { stage: status.name.clone(), rows, bytes, seconds, warnings });
    Ok((manifest, Some((seconds, stalls))))
}

/// Goes back to what is committed of an unfinished artefact. Warns of damage that was passed over, and of other means than
/// those that the artefact was begun with.
fn resume(artefact: &Artefact, status: &StageStatus, resources: &Resources) -> Result<(Committed, Vec<Warning>)> {
    artefact.sweep()?;
    let (committed, mut messages) = journal::fold_sound(artefact)?;
    journal::cut(artefact, committed.entries)?;
    let means = format!("{} threads on {}", resources.threads, resources.device);
    if !artefact.create("means", means.clone().into())?
        && let Some(before) = artefact.get("means")?.filter(|before| *before != means)
    {
        let before = String::from_utf8_lossy(&before).into_owned();
        messages.push(format!("begun with {before} and finished with {means}: numbers may differ in their last bits"));
    }
    let warnings = messages.into_iter().map(|message| Warning { subject: status.name.clone(), message });
    Ok((committed, warnings.collect()))
}

/// Writers of the tables of a stage, by name, after what is committed; and the names of its files.
fn outputs<S: Stage>(
    node: &Node<S>,
    committed: &Committed,
) -> (BTreeMap<&'static str, TableWriter>, Vec<&'static str>) {
    let mut tables = BTreeMap::new();
    let mut files = Vec::new();
    for output in node.stage.outputs() {
        match output.form {
            Form::Table { schema, part_rows, .. } => {
                let parts = committed.tables.get(output.name).map_or(&[][..], Vec::as_slice);
                let before_state = committed.states.last().and_then(|state| state.parts.get(output.name)).copied();
                let rows = |parts: &[crate::store::Part]| parts.iter().map(|part| part.rows).sum();
                let position = rows(&parts[..before_state.unwrap_or(0)]);
                tables.insert(output.name, TableWriter::new(output.name, schema, part_rows, position, rows(parts)));
            }
            Form::Files => files.push(output.name),
        }
    }
    (tables, files)
}

/// The inputs of a stage, ready to be read.
fn inputs<S: Stage>(
    node: &Node<S>,
    places: &HashMap<(String, String), Place>,
    cancel: &Cancel,
) -> Result<BTreeMap<String, Input>> {
    let place = |from: &TableRef| {
        let place = places.get(&(from.stage().to_owned(), from.table().to_owned()));
        place.ok_or_else(|| Error::internal(format!("nobody writes `{from}`")))
    };
    let mut inputs = BTreeMap::new();
    for input in node.stage.inputs() {
        let port = match &input.origin {
            Origin::Source(source) => Input::Source(source.path().to_owned()),
            Origin::Table { from, .. } => {
                let Place { artefact, feed, root } = place(from)?;
                let (name, table) = (from.to_string(), from.table().to_owned());
                let reader = TableReader::new(name, artefact.clone(), table, Arc::clone(feed), cancel.clone());
                Input::Table(Box::new(reader), root.clone())
            }
            Origin::Files { from } => {
                let Place { artefact, feed, .. } = place(from)?;
                let (name, output) = (from.to_string(), from.table().to_owned());
                Input::Files { name, artefact: artefact.clone(), output, feed: Arc::clone(feed) }
            }
        };
        inputs.insert(input.name, port);
    }
    Ok(inputs)
}

/// Writes the manifest, which completes the artefact, and tidies up what only a resume needs.
fn publish(world: EngineWorld<'_>, status: &StageStatus, seconds: f64) -> Result<Manifest> {
    let EngineWorld { ledger, warnings, files, .. } = world;
    for output in files {
        if !ledger.committed.files.contains_key(output) {
            return Err(Error::internal(format!("stage `{}` wrote no file of `{output}`", status.name)));
        }
    }
    let mut all = ledger.committed.warnings.clone();
    all.extend(warnings);
    let manifest = Manifest {
        identity: status.identity.clone(),
        tables: ledger.committed.tables.clone(),
        files: ledger.committed.files.clone(),
        warnings: all,
        seconds,
        finished: jiff::Timestamp::now(),
        pairloom: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let content = serde_json::to_vec_pretty(&manifest).map_err(|error| Error::internal(error.to_string()))?;
    if let Some(marker) = ledger.artefact.get("damaged")? {
        // A reader met it while this stage still ran.
        let problem = String::from_utf8_lossy(&marker).into_owned();
        return Err(Error::data(format!("something it wrote is damaged: {problem}"))
            .hint("run the same command again: it builds what is damaged anew"));
    }
    ledger.claim.complete(&ledger.artefact, "manifest.json", content.into())?;
    ledger.feed.complete(manifest.tables.clone(), manifest.files.clone());
    // The manifest says it all now. What cannot be removed is only untidy.
    let rest = ledger.artefact.list("").unwrap_or_default();
    let rest = rest.into_iter().filter(|name| {
        name.starts_with("journal/") || name.starts_with("state-") || ["means", "ranks"].contains(&name.as_str())
    });
    let _ = ledger.artefact.delete_all(rest);
    Ok(manifest)
}
