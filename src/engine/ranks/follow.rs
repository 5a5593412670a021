//! What a rank other than 0 does: waits for jobs and runs them, as long as rank 0 is there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::board::{Messages, PAUSE};
use super::crew::{Crew, MEET};
use super::environment::Place;
use super::message::{Failure, Hello, Job, Report, description};
use super::world::FollowerWorld;
use crate::engine::cache::LazyCache;
use crate::engine::feed::Feed;
use crate::engine::flow::caught;
use crate::engine::inputs::{Input, Inputs};
use crate::engine::reader::TableReader;
use crate::engine::run::Options;
use crate::engine::sources;
use crate::error::{Error, Kind, Result};
use crate::plan::Plan;
use crate::runtime::{Cancel, Ranks, Resources};
use crate::stage::{Form, Origin, Run, Stage, TableRef};
use crate::store::key::InputIdentity;
use crate::store::{Artefact, Store};

/// How long a job may go on after it was told to stop, before the process is ended: a call of libtorch cannot be stopped.
const GRACE: Duration = Duration::from_secs(8);
/// How long the reason of an error is waited for, which rank 0 knows.
const REASON: Duration = Duration::from_secs(8);

/// Runs what rank 0 asks for, until rank 0 says that the run has ended, or is gone.
///
/// # Errors
/// What ended the run, wherever it happened.
pub fn follow<S: Run>(plan: &Plan<S>, store: &Store, options: &Options, place: &Place, cancel: &Cancel) -> Result<()> {
    let messages = greet(options, place, Ok(description(plan)), cancel)?;
    let mut number = 0;
    loop {
        if let Some(end) = ended(&messages, place)? {
            return end;
        }
        if let Err(error) = cancel.proceed() {
            messages.put(&format!("left/{}", place.rank), &Report { result: Err(Failure::from(&error)) })?;
            return Err(error);
        }
        let Some(job) = messages.get::<Job>(&format!("job/{number}")).map_err(gone)? else {
            std::thread::sleep(PAUSE);
            continue;
        };
        let result = work(plan, store, options, place, job, number, &messages, cancel);
        let report = Report { result: result.as_ref().copied().map_err(Failure::from) };
        messages.put(&format!("report/{number}/{}", place.rank), &report).map_err(gone)?;
        if let Err(error) = result {
            return Err(reason(error, &messages, place));
        }
        number += 1;
    }
}

/// Says why this process has no plan, and ends the run of all ranks with that. Gives back the error.
pub fn decline(options: &Options, place: &Place, error: Error, cancel: &Cancel) -> Error {
    if place.rank == 0 {
        // Its own error is this one.
        let _ = Crew::meet(&options.ranks, place, Err(&error), cancel);
    } else if let Ok(messages) = greet(options, place, Err(Failure::from(&error)), cancel) {
        return reason(error, &messages, place);
    }
    error
}

fn greet(options: &Options, place: &Place, plan: Result<Value, Failure>, cancel: &Cancel) -> Result<Messages> {
    let boards = options.ranks.boards;
    let boards = boards.ok_or_else(|| Error::usage("this program cannot connect to other ranks"))?;
    // Whoever has nothing to run does not wait for others long.
    let patience = if plan.is_ok() { MEET } else { Duration::from_secs(10) };
    let messages = Messages::connect(boards, place, patience, cancel)?;
    messages.put(&format!("hello/{}", place.rank), &Hello { plan })?;
    Ok(messages)
}

/// How the run ended, if it has.
fn ended(messages: &Messages, place: &Place) -> Result<Option<Result<()>>> {
    let Some(Report { result }) = messages.get("end").map_err(gone)? else { return Ok(None) };
    // Rank 0 waits for it, and can do without.
    let _ = messages.put(&format!("bye/{}", place.rank), &Value::Bool(true));
    Ok(Some(result.map_err(Error::from)))
}

fn gone(error: Error) -> Error {
    if error.is_peer() { Error::peer("rank 0 is gone") } else { error }
}

/// The error that ended the run, if rank 0 knows a better one than this.
#[expect(clippy::disallowed_methods, reason = "waiting for another process is not work")]
fn reason(own: Error, messages: &Messages, place: &Place) -> Error {
    let begun = Instant::now();
    while begun.elapsed() < REASON {
        match ended(messages, place) {
            Ok(Some(Err(error))) => return error,
            Ok(Some(Ok(()))) => return own,
            Ok(None) => std::thread::sleep(PAUSE),
            Err(gone) => return if own.is_peer() { gone } else { own },
        }
    }
    own
}

/// Runs a job, and watches meanwhile whether it is still wanted.
#[expect(clippy::too_many_arguments, reason = "all that a rank is")]
fn work<S: Run>(
    plan: &Plan<S>,
    store: &Store,
    options: &Options,
    place: &Place,
    job: Job,
    number: u64,
    messages: &Messages,
    cancel: &Cancel,
) -> Result<()> {
    let stop = cancel.child();
    let done = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        let watch = std::thread::Builder::new().name("watch of rank 0".to_owned());
        watch
            .spawn_scoped(scope, || watch_rank_0(messages, number, options, &stop, &done))
            .map_err(|error| Error::internal(format!("no thread: {error}")))?;
        let result = caught(|| run(plan, store, options, place, job, &stop));
        done.store(true, Ordering::SeqCst);
        result
    });
    match result {
        // It was not this process that was told to stop.
        Err(error) if error.kind() == Kind::Interrupted && !cancel.is_cancelled() => {
            Err(Error::peer("stopped, because rank 0 stopped"))
        }
        result => result,
    }
}

/// Raises `stop` when rank 0 wants no more of the job, or is gone; ends the process if that does not help.
#[expect(clippy::disallowed_methods, reason = "waiting for another process is not work")]
fn watch_rank_0(messages: &Messages, number: u64, options: &Options, stop: &Cancel, done: &AtomicBool) {
    let mut stopped: Option<Instant> = None;
    while !done.load(Ordering::SeqCst) {
        if stopped.is_none() {
            let wanted = [format!("stop/{number}"), "end".to_owned()]
                .iter()
                .all(|name| matches!(messages.get::<Value>(name), Ok(None)));
            if !wanted || stop.is_cancelled() {
                stop.cancel();
                stopped = Some(Instant::now());
            }
        }
        if stopped.is_some_and(|stopped| stopped.elapsed() > GRACE)
            && let Some(give_up) = options.ranks.give_up
        {
            give_up();
        }
        std::thread::sleep(4 * PAUSE);
    }
}

fn run<S: Run>(
    plan: &Plan<S>,
    store: &Store,
    options: &Options,
    place: &Place,
    job: Job,
    cancel: &Cancel,
) -> Result<()> {
    let node = plan.nodes().iter().find(|node| node.name == job.stage);
    let node = node.ok_or_else(|| Error::internal(format!("rank 0 runs a stage `{}` that is not here", job.stage)))?;
    let state = job.state.map(|file| (store.artefact(&job.identity.kind, &job.identity.key()), file));
    let cache = LazyCache::new(&options.cache);
    let mut inputs = BTreeMap::new();
    for input in node.stage.inputs() {
        let artefact = || match job.identity.inputs.get(&input.name) {
            Some(InputIdentity::Artefact { kind, key, .. }) => Ok(store.artefact(kind, key)),
            _ => Err(Error::internal(format!("rank 0 does not say where `{}` lies", input.name))),
        };
        let feed = Arc::new(Feed::default());
        let port = match &input.origin {
            Origin::Source(source) => {
                let digest = sources::digest(store, source.path(), options.threads, cancel, &|_| ())?;
                if job.identity.inputs.get(&input.name) != Some(&InputIdentity::Source(digest)) {
                    let (name, rank) = (&input.name, place.rank);
                    let message = format!("`{name}` has another content on rank {rank} than on rank 0");
                    return Err(Error::usage(message).hint("all ranks must read the same files"));
                }
                Input::Source(source.path().to_owned())
            }
            Origin::Table { from, .. } => {
                let parts = job.parts.get(&input.name).cloned().unwrap_or_default();
                feed.complete([(from.table().to_owned(), parts)].into(), BTreeMap::new());
                let artefact: Artefact = artefact()?;
                let reader =
                    TableReader::new(from.to_string(), artefact, from.table().to_owned(), feed, cancel.clone());
                Input::Table(Box::new(reader), root(plan, from))
            }
            Origin::Files { from } => {
                let files = job.files.get(&input.name).cloned().unwrap_or_default();
                feed.complete(BTreeMap::new(), [(from.table().to_owned(), files)].into());
                let (name, artefact, output) = (from.to_string(), artefact()?, from.table().to_owned());
                Input::Files { name, artefact, output, feed }
            }
        };
        inputs.insert(input.name, port);
    }
    let ranks = Ranks { rank: place.rank, of: place.of, local: place.local, meeting: Some(job.meeting) };
    let threads = super::share(options.threads, place.locals);
    let resources = Resources { threads, device: options.device, cancel: cancel.clone() };
    let mut world = FollowerWorld {
        identity: &job.identity,
        inputs: Inputs { stage: node.name.clone(), inputs },
        state,
        cache: &cache,
        resources,
        ranks,
    };
    node.stage.run(&mut world)
}

/// The folder that paths in a table are relative to, if its producer names one.
fn root<S: Stage>(plan: &Plan<S>, table: &TableRef) -> Option<std::path::PathBuf> {
    let producer = plan.nodes().iter().find(|node| node.name == table.stage())?;
    let output = producer.stage.outputs().into_iter().find(|output| output.name == table.table())?;
    let Form::Table { root: Some(root), .. } = output.form else { return None };
    let input = producer.stage.inputs().into_iter().find(|input| input.name == root)?;
    match input.origin {
        Origin::Source(source) => Some(source.path().to_owned()),
        _ => None,
    }
}
