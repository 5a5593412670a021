//! Follower: a rank other than 0, which waits for jobs of rank 0 and runs them. It maps its share of the blocks, reads
//! like the engine, and discards everything that is written.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use bytes::Bytes;
use serde_json::Value;

use super::environment::RankEnvironment;
use super::message::{HelloMessage, RankJob, ResultMessage, plan_description};
use super::message::{MessageStore, POLL_INTERVAL};
use super::shared_parts::{SharedPart, SharedParts};
use super::worker_group::{START_TIMEOUT, WorkerGroup};
use crate::earlier_rows::stored_rows;
use crate::inputs::{BlockReader, LazyCache, OpenInput, StageInputs, TableReader, batch_bytes};
use crate::map::{MemoryBudget, ordered_map};
use crate::run::RunOptions;
use crate::sources;
use crate::writer::ArtefactFeed;
use pairloom_base::error::{Error, ErrorCategory, Result, catch_panic};
use pairloom_base::runtime::{CancelToken, ErrorMessage, ProcessGroup, Rendezvous, Resources};
use pairloom_stage::plan::Plan;
use pairloom_stage::{
    FileKeys, InputOrigin, MapBlock, MapFn, MapInput, MapSummary, OutputKind, RunStage, SharedEarlierRows, Stage,
    StageEvent, StageHost, StageLineage, TableRef,
};
use pairloom_storage::objects::ObjectStorage;
use pairloom_storage::shard::Shard;
use pairloom_storage::table_shards::TableShards;
use pairloom_store::key::{ArtefactIdentity, InputIdentity};
use pairloom_store::{Artefact, FileEntry, Store};

/// Time for a job to stop after its cancellation. Then the process is ended, since calls of libtorch cannot be
/// cancelled.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);
/// Timeout for the root cause of an error, which rank 0 sends.
const CAUSE_TIMEOUT: Duration = Duration::from_secs(8);

/// Runs the jobs of rank 0 by `run_stage`, until rank 0 ends the run or is lost.
///
/// # Errors
/// The error that ended the run, on whichever rank it happened.
pub fn run_follower<S: Stage>(
    plan: &Plan<S>,
    run_stage: RunStage<S>,
    store: &Store,
    options: &RunOptions,
    environment: &RankEnvironment,
    cancel: &CancelToken,
) -> Result<()> {
    let messages = send_hello(options, environment, Ok(plan_description(plan)), cancel)?;
    let mut number = 0;
    loop {
        if let Some(end) = run_result(&messages, environment)? {
            return end;
        }
        if let Err(error) = cancel.check() {
            messages.put(
                &format!("left/{}", environment.rank),
                &ResultMessage { result: Err(ErrorMessage::from(&error)) },
            )?;
            return Err(error);
        }
        let Some(job) = messages.get::<RankJob>(&format!("job/{number}")).map_err(lost_rank_0)? else {
            std::thread::sleep(POLL_INTERVAL);
            continue;
        };
        let result = run_watched_job((plan, run_stage), store, options, environment, job, number, &messages, cancel);
        let report = ResultMessage { result: result.as_ref().copied().map_err(ErrorMessage::from) };
        messages.put(&format!("report/{number}/{}", environment.rank), &report).map_err(lost_rank_0)?;
        if let Err(error) = result {
            return Err(wait_for_cause(error, &messages, environment));
        }
        number += 1;
    }
}

/// Reports the error because of which this process has no plan, and ends all ranks with it. Returns the error.
pub fn report_startup_error(
    options: &RunOptions,
    environment: &RankEnvironment,
    error: Error,
    cancel: &CancelToken,
) -> Error {
    if environment.rank == 0 {
        // The result is `error` again.
        let _ = WorkerGroup::connect(&options.ranks, environment, Err(&error), cancel);
    } else if let Ok(messages) = send_hello(options, environment, Err(ErrorMessage::from(&error)), cancel) {
        return wait_for_cause(error, &messages, environment);
    }
    error
}

fn send_hello(
    options: &RunOptions,
    environment: &RankEnvironment,
    plan: Result<Value, ErrorMessage>,
    cancel: &CancelToken,
) -> Result<MessageStore> {
    let backend = options.ranks.backend;
    let backend = backend.ok_or_else(|| Error::usage("this program cannot connect to other ranks"))?;
    // A rank without a plan does not wait long for the others.
    let timeout = if plan.is_ok() { START_TIMEOUT } else { Duration::from_secs(10) };
    let messages = MessageStore::connect(backend, environment, timeout, cancel)?;
    messages.put(&format!("hello/{}", environment.rank), &HelloMessage { plan })?;
    Ok(messages)
}

/// Result of the run, if rank 0 has ended it.
fn run_result(messages: &MessageStore, environment: &RankEnvironment) -> Result<Option<Result<()>>> {
    let Some(ResultMessage { result }) = messages.get("end").map_err(lost_rank_0)? else { return Ok(None) };
    // Rank 0 waits for this message only for a few seconds, so an error does no harm.
    let _ = messages.put(&format!("bye/{}", environment.rank), &Value::Bool(true));
    Ok(Some(result.map_err(Error::from)))
}

fn lost_rank_0(error: Error) -> Error {
    if error.is_peer() { Error::peer("lost the connection to rank 0") } else { error }
}

/// Waits for the error with which rank 0 ends the run. Returns `own` if rank 0 sends none.
#[expect(clippy::disallowed_methods, reason = "waiting for another process is not work")]
fn wait_for_cause(own: Error, messages: &MessageStore, environment: &RankEnvironment) -> Error {
    let begun = Instant::now();
    while begun.elapsed() < CAUSE_TIMEOUT {
        match run_result(messages, environment) {
            Ok(Some(Err(error))) => return error,
            Ok(Some(Ok(()))) => return own,
            Ok(None) => std::thread::sleep(POLL_INTERVAL),
            Err(lost) => return if own.is_peer() { lost } else { own },
        }
    }
    own
}

/// Runs a job, and cancels it when rank 0 stops it or is lost.
#[expect(clippy::too_many_arguments, reason = "the context of a follower and the job")]
fn run_watched_job<S: Stage>(
    (plan, run_stage): (&Plan<S>, RunStage<S>),
    store: &Store,
    options: &RunOptions,
    environment: &RankEnvironment,
    job: RankJob,
    number: u64,
    messages: &MessageStore,
    cancel: &CancelToken,
) -> Result<()> {
    let stop = cancel.child();
    let done = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        let watch = std::thread::Builder::new().name("watch rank 0".to_owned());
        watch
            .spawn_scoped(scope, || watch_rank_0(messages, number, options, &stop, &done))
            .map_err(|error| Error::internal(format!("no thread: {error}")))?;
        let result = catch_panic(|| run_job(plan, run_stage, store, options, environment, job, &stop));
        done.store(true, Ordering::SeqCst);
        result
    });
    match result {
        // The interruption came from rank 0, not from a signal to this process.
        Err(error) if error.category() == ErrorCategory::Interrupted && !cancel.is_cancelled() => {
            Err(Error::peer("stopped, because rank 0 stopped"))
        }
        result => result,
    }
}

/// Cancels `stop` when rank 0 stops the job or is lost. Ends the process if the job does not stop in time.
#[expect(clippy::disallowed_methods, reason = "waiting for another process is not work")]
fn watch_rank_0(messages: &MessageStore, number: u64, options: &RunOptions, stop: &CancelToken, done: &AtomicBool) {
    let mut stopped: Option<Instant> = None;
    while !done.load(Ordering::SeqCst) {
        if stopped.is_none() {
            let is_wanted = [format!("stop/{number}"), "end".to_owned()]
                .iter()
                .all(|name| matches!(messages.get::<Value>(name), Ok(None)));
            if !is_wanted || stop.is_cancelled() {
                stop.cancel();
                stopped = Some(Instant::now());
            }
        }
        if stopped.is_some_and(|stopped| stopped.elapsed() > STOP_TIMEOUT)
            && let Some(abort) = options.ranks.abort_process
        {
            abort();
        }
        std::thread::sleep(4 * POLL_INTERVAL);
    }
}

fn run_job<S: Stage>(
    plan: &Plan<S>,
    run_stage: RunStage<S>,
    store: &Store,
    options: &RunOptions,
    environment: &RankEnvironment,
    job: RankJob,
    cancel: &CancelToken,
) -> Result<()> {
    let node = plan.stages().iter().find(|node| node.name == job.stage);
    let node = node.ok_or_else(|| {
        Error::internal(format!("rank 0 runs stage `{}`, which is not in the plan of this rank", job.stage))
    })?;
    let own = store.artefact(&job.identity.kind, &job.identity.key());
    let state = job.state;
    let cache = LazyCache::new(&options.cache);
    let mut inputs = BTreeMap::new();
    for input in node.stage.inputs() {
        let artefact = || match job.identity.inputs.get(&input.name) {
            Some(InputIdentity::Artefact { kind, key, .. }) => Ok(store.artefact(kind, key)),
            _ => Err(Error::internal(format!("the job of rank 0 has no artefact for input `{}`", input.name))),
        };
        let feed = Arc::new(ArtefactFeed::default());
        let open = match &input.origin {
            InputOrigin::Source(source) => {
                let digest =
                    sources::read_source(store, source.path(), options.source_reading(), cancel, &|_| ())?.digest;
                if job.identity.inputs.get(&input.name) != Some(&InputIdentity::Source(digest)) {
                    let (name, rank) = (&input.name, environment.rank);
                    let message = format!("the content of `{name}` on rank {rank} differs from that on rank 0");
                    return Err(Error::usage(message).hint("all ranks must read the same files"));
                }
                OpenInput::Source(source.path().to_owned())
            }
            InputOrigin::Table { from, .. } => {
                let parts = job.parts.get(&input.name).cloned().unwrap_or_default();
                feed.complete([(from.table().to_owned(), parts)].into(), BTreeMap::new());
                let artefact: Artefact = artefact()?;
                let reader =
                    TableReader::new(from.to_string(), artefact, from.table().to_owned(), feed, cancel.clone());
                OpenInput::Table(Box::new(reader), table_root(plan, from))
            }
            InputOrigin::Files { from, .. } => {
                let files = job.files.get(&input.name).cloned().unwrap_or_default();
                feed.complete(BTreeMap::new(), [(from.table().to_owned(), files)].into());
                let (name, artefact, output) = (from.to_string(), artefact()?, from.table().to_owned());
                OpenInput::Files { name, artefact, output, feed }
            }
        };
        inputs.insert(input.name, open);
    }
    let ranks = ProcessGroup {
        rank: environment.rank,
        world_size: environment.world_size,
        local_rank: environment.local_rank,
        rendezvous: Some(Rendezvous {
            token: environment.token.clone(),
            nccl_host_id: environment.nccl_host_id.clone(),
            ..job.rendezvous
        }),
    };
    let threads = super::threads_per_process(options.threads, environment.local_world_size);
    let resources = Resources { threads, device: options.device, cancel: cancel.clone(), remote: None };
    let mut host = FollowerHost {
        identity: &job.identity,
        store,
        artefact: own,
        committed: job.committed,
        budget: MemoryBudget::new(options.memory),
        inputs: StageInputs { stage: node.name.clone(), inputs },
        state,
        cache: &cache,
        resources,
        process_group: ranks,
    };
    run_stage(&node.stage, &mut host)
}

/// Folder that paths in a table are relative to, if its producer declares one.
fn table_root<S: Stage>(plan: &Plan<S>, table: &TableRef) -> Option<PathBuf> {
    let producer = plan.stages().iter().find(|node| node.name == table.stage())?;
    let output = producer.stage.outputs().into_iter().find(|output| output.name == table.table())?;
    let OutputKind::Table { root: Some(root), .. } = output.kind else { return None };
    let input = producer.stage.inputs().into_iter().find(|input| input.name == root)?;
    match input.origin {
        InputOrigin::Source(source) => Some(source.path().to_owned()),
        _ => None,
    }
}

/// Stage host of a follower.
pub(super) struct FollowerHost<'e> {
    pub identity: &'e ArtefactIdentity,
    pub store: &'e Store,
    pub artefact: Artefact,
    /// Numbers of parts that rank 0 had committed, by table.
    pub committed: BTreeMap<String, usize>,
    pub budget: MemoryBudget,
    pub inputs: StageInputs,
    /// State from which rank 0 resumed.
    pub state: Option<FileEntry>,
    pub cache: &'e LazyCache<'e>,
    pub resources: Resources,
    pub process_group: ProcessGroup,
}

impl FollowerHost<'_> {
    fn check_cancelled(&self) -> Result<()> {
        self.resources.cancel.check()
    }
}

impl StageHost for FollowerHost<'_> {
    fn read_next(&mut self, input: &str) -> Result<Option<RecordBatch>> {
        self.inputs.read_next(input, &mut |_| ())
    }

    fn shards(&mut self, input: &str) -> Result<TableShards> {
        self.inputs.shards(input, self.cache, &mut |_| ())
    }

    fn file(&mut self, input: &str, name: &str) -> Result<Bytes> {
        self.inputs.read_file(input, name, &self.resources.cancel, &mut |_| ())
    }

    fn path(&self, input: &str) -> Result<Option<PathBuf>> {
        self.inputs.path(input)
    }

    fn store_folder(&self) -> Option<&Path> {
        self.store.objects().folder()
    }

    fn objects(&self, input: &str) -> Result<Option<ObjectStorage>> {
        self.inputs.objects(input, self.store)
    }

    fn lineage(&self) -> Result<StageLineage> {
        let stage = &self.inputs.stage;
        Err(Error::internal(format!("stage `{stage}` calls `lineage`, which is not supported in a process group")))
    }

    fn write(&mut self, _output: &str, _batch: RecordBatch) -> Result<()> {
        self.check_cancelled()
    }

    fn map(&mut self, input: MapInput<'_>, output: &str, size: usize, function: &MapFn<'_>) -> Result<MapSummary> {
        let Some(shared) = SharedParts::of(&self.artefact, output, &self.process_group) else {
            return Err(Error::internal("a follower is in a group of one"));
        };
        let committed = self.committed.get(output).copied().unwrap_or_default();
        let (budget, resources, size) = (self.budget.clone(), &self.resources, size.max(1));
        let map = FollowerMap { shared, committed, size, function, budget, resources };
        let all = match input {
            MapInput::Table(name) => map.map_rows(self.inputs.table_reader(name)?)?,
            MapInput::Range(count) => map.map_range(count).map(|()| count as u64)?,
        };
        // Rank 0 alone knows the rows of all blocks.
        Ok(MapSummary { inputs: all, rows: all, warnings: Vec::new() })
    }

    fn earlier_rows(&mut self, output: &str, not_of_rows: &[&str]) -> Result<SharedEarlierRows> {
        Ok(stored_rows(self.store, self.identity, output, not_of_rows)?.shared())
    }

    fn file_keys(&mut self, input: &str) -> Result<FileKeys> {
        self.inputs.file_keys(input, self.store)
    }

    fn put_file(&mut self, _output: &str, _name: &str, _content: Bytes) -> Result<()> {
        self.check_cancelled()
    }

    fn cached(&mut self, name: &str, settings: &Value) -> Result<Option<Arc<Shard>>> {
        self.cache.get_rows(&self.identity.cache_name(name, settings), &self.resources.cancel)
    }

    fn cache(&mut self, name: &str, settings: &Value, batch: RecordBatch) -> Result<Arc<Shard>> {
        self.cache.insert_rows(&self.identity.cache_name(name, settings), batch, &self.resources.cancel)
    }

    fn saved_state(&mut self) -> Result<Option<Bytes>> {
        let Some(file) = &self.state else { return Ok(None) };
        self.artefact.read(&file.name, file.bytes, &file.digest).map(Some)
    }

    fn save_state(&mut self, _state: Bytes, _last: usize) -> Result<()> {
        self.check_cancelled()
    }

    fn emit(&mut self, _event: StageEvent) {}

    fn resources(&self) -> &Resources {
        &self.resources
    }

    fn wait_for_exclusive(&mut self) -> Result<()> {
        // Rank 0 waits on behalf of all ranks.
        self.check_cancelled()
    }

    fn process_group(&mut self, _world_size: usize) -> Result<ProcessGroup> {
        Ok(self.process_group.clone())
    }
}

/// Map of a follower into one table.
pub(super) struct FollowerMap<'m> {
    pub shared: SharedParts,
    /// Blocks that rank 0 had committed before.
    pub committed: usize,
    /// Rows or indices of a block.
    pub size: usize,
    pub function: &'m MapFn<'m>,
    pub budget: MemoryBudget,
    pub resources: &'m Resources,
}

impl FollowerMap<'_> {
    /// Maps its share of the rows of a table. Returns the number of all rows.
    pub fn map_rows(&self, reader: &mut TableReader) -> Result<u64> {
        reader.rewind();
        reader.skip(self.committed * self.size);
        let mut at = self.committed * self.size;
        let mut blocks = BlockReader::new(reader, self.size);
        self.run(|| {
            let rows = blocks.next(&mut |_| ())?;
            Ok(rows.map(|rows| {
                let range = at..at + rows.num_rows();
                at = range.end;
                MapBlock { range, rows }
            }))
        })?;
        reader.rewind();
        Ok(at as u64)
    }

    /// Maps its share of the indices `0..count`.
    pub fn map_range(&self, count: usize) -> Result<()> {
        let mut at = self.committed * self.size;
        self.run(|| {
            let range: Range<usize> = at..count.min(at + self.size);
            at += self.size;
            let rows = RecordBatch::new_empty(Schema::empty().into());
            Ok((!range.is_empty()).then_some(MapBlock { range, rows }))
        })
    }

    fn run(&self, mut next: impl FnMut() -> Result<Option<MapBlock>> + Send) -> Result<()> {
        let source = || {
            while let Some(block) = next()? {
                let number = block.range.start / self.size;
                if self.shared.is_own(number) && !self.shared.has(number)? {
                    let bytes = batch_bytes(&block.rows).max(1);
                    return Ok(Some((block, bytes)));
                }
            }
            Ok(None)
        };
        let work = |block: MapBlock| {
            let (_, part) = SharedPart::encode((self.function)(&block)?)?;
            let bytes = part.content.len() as u64;
            Ok(((block.range.start / self.size, part), bytes))
        };
        let sink = |(number, part): (usize, SharedPart)| self.shared.write(number, &part);
        ordered_map(&self.budget, &self.resources.cancel.child(), self.resources.threads, source, work, sink)
    }
}
