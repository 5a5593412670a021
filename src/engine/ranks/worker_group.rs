//! Worker group: the other ranks, as used by rank 0. It waits for them, gives them jobs and detects failures. The
//! coordinator starts a job when a stage requests a process group.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::environment::{ChildProcesses, LAUNCHED_PREFIX, LOOPBACK, RankEnvironment, describe_exit};
use super::message::{
    HelloMessage, MessageStore, POLL_INTERVAL, RankJob, RendezvousBackend, ResultMessage, describe_differences,
};
use super::{RankOptions, threads_per_process};
use crate::inputs::{CompleteInputs, OnWait, StageInputs};
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_base::runtime::{CancelToken, ErrorMessage, ProcessGroup, Rendezvous, Resources, random_hex};
use pairloom_store::FileEntry;
use pairloom_store::key::ArtefactIdentity;

/// Timeout for all ranks to start. Schedulers do not start all of them at the same time.
pub(super) const START_TIMEOUT: Duration = Duration::from_mins(5);
/// Timeout for all ranks to start if rank 0 only tells them that the run failed.
const DECLINE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for ranks to end at the end of a run.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Hint of errors about lost ranks.
const RESUME_HINT: &str = "run the same command again: it resumes from the last checkpoint";

/// The other ranks of a run, or of a stage that started its own.
pub(crate) struct WorkerGroup {
    messages: MessageStore,
    children: Mutex<ChildProcesses>,
    world_size: usize,
    /// Ranks on this machine.
    local_world_size: usize,
    host: String,
    port: u16,
    /// Secret of the ranks; `None` if the launcher sets none.
    token: Option<String>,
    nccl_host_id: Option<String>,
    timeout: Duration,
    /// True if this process launched the ranks for one stage. They end with it.
    is_launched_here: bool,
    /// Number of the next job.
    next_job: AtomicU64,
    /// True while a job is running.
    has_running_job: AtomicBool,
}

impl WorkerGroup {
    /// Connects to the ranks that the program was launched as. `own` is the description of the plan of this rank, or
    /// the error because of which it has none.
    ///
    /// # Errors
    /// A rank did not connect in time, or has another plan. All ranks then end with this error.
    pub fn connect(
        options: &RankOptions,
        environment: &RankEnvironment,
        own: Result<&Value, &Error>,
        cancel: &CancelToken,
    ) -> Result<Arc<Self>> {
        let backend = required_backend(options, environment.world_size)?;
        let (messages, port) = if environment.has_launcher_store {
            (MessageStore::connect(backend, environment, START_TIMEOUT, cancel)?, environment.port)
        } else {
            let (store, port) =
                backend.serve(&environment.host, environment.port, START_TIMEOUT, environment.token.is_some())?;
            (MessageStore::new(store, &environment.prefix, environment.token.as_deref()), port)
        };
        let this = Self {
            messages,
            children: Mutex::default(),
            world_size: environment.world_size,
            local_world_size: environment.local_world_size,
            host: environment.host.clone(),
            port,
            token: environment.token.clone(),
            nccl_host_id: environment.nccl_host_id.clone(),
            timeout: options.timeout,
            is_launched_here: false,
            next_job: AtomicU64::new(0),
            has_running_job: AtomicBool::new(false),
        };
        this.check_settings(own, cancel)?;
        Ok(Arc::new(this))
    }

    /// Launches the other ranks of a stage on this machine.
    ///
    /// # Errors
    /// They cannot be started, or do not connect in time.
    pub fn launch(options: &RankOptions, world_size: usize, own: &Value, cancel: &CancelToken) -> Result<Arc<Self>> {
        let (store, port) = required_backend(options, world_size)?.serve(LOOPBACK, 0, START_TIMEOUT, false)?;
        let token = random_hex::<16>()?;
        let children = ChildProcesses::start(&options.command, world_size, port, &token)?;
        let this = Self {
            messages: MessageStore::new(store, LAUNCHED_PREFIX, Some(&token)),
            children: Mutex::new(children),
            world_size,
            local_world_size: world_size,
            host: LOOPBACK.to_owned(),
            port,
            token: Some(token),
            nccl_host_id: None,
            timeout: options.timeout,
            is_launched_here: true,
            next_job: AtomicU64::new(0),
            has_running_job: AtomicBool::new(false),
        };
        this.check_settings(Ok(own), cancel)?;
        Ok(Arc::new(this))
    }

    /// Number of ranks, including rank 0.
    pub fn world_size(&self) -> usize {
        self.world_size
    }

    /// Number of ranks that share the CPUs of this machine.
    pub fn local_world_size(&self) -> usize {
        self.local_world_size
    }

    /// Checks that all ranks have the same plan. If not, ends all ranks with that error.
    fn check_settings(&self, own: Result<&Value, &Error>, cancel: &CancelToken) -> Result<()> {
        let result = self.collect_hellos(own, cancel);
        if result.is_err() {
            self.end_run(result.as_ref().copied());
        }
        result
    }

    #[expect(clippy::disallowed_methods, reason = "waiting for another process is not work")]
    fn collect_hellos(&self, own: Result<&Value, &Error>, cancel: &CancelToken) -> Result<()> {
        let begun = Instant::now();
        let timeout = if own.is_ok() { START_TIMEOUT } else { DECLINE_TIMEOUT };
        let mut missing: Vec<usize> = (1..self.world_size).collect();
        let mut problems = Vec::new();
        while !missing.is_empty() {
            let mut waiting_for = Vec::new();
            for rank in missing {
                match (self.messages.get::<HelloMessage>(&format!("hello/{rank}"))?, own) {
                    (None, _) => waiting_for.push(rank),
                    (Some(HelloMessage { plan: Err(failure) }), Ok(_)) => {
                        problems.push(format!("rank {rank}: {}", Error::from(failure)));
                    }
                    (Some(HelloMessage { plan: Ok(other) }), Ok(own)) => {
                        problems.extend(describe_differences(rank, own, &other));
                    }
                    (Some(_), Err(_)) => {}
                }
                if let Some(status) = self.children().exit_status(rank) {
                    return Err(Error::stage(format!(
                        "rank {rank} of {} {} while starting",
                        self.world_size,
                        describe_exit(status)
                    )));
                }
            }
            missing = waiting_for;
            if begun.elapsed() >= timeout && !missing.is_empty() {
                break;
            }
            cancel.check()?;
            std::thread::sleep(POLL_INTERVAL);
        }
        if let Err(error) = own {
            return Err(Error::new(error.category(), format!("rank 0: {error}")));
        }
        if !problems.is_empty() {
            let problems = problems.join("; ");
            return Err(Error::usage(format!("ranks must have the same settings: {problems}"))
                .hint("give all ranks the same pipeline file and the same `--set`"));
        }
        if !missing.is_empty() {
            let missing = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let (world_size, seconds) = (self.world_size, timeout.as_secs());
            return Err(Error::stage(format!("rank {missing} of {world_size} did not connect within {seconds} s"))
                .hint("start all ranks, with the same MASTER_ADDR and MASTER_PORT"));
        }
        Ok(())
    }

    /// Starts a job on all ranks, after the previous one has ended. Cancels `stage` if one of the ranks fails or exits.
    pub fn start_job(
        self: &Arc<Self>,
        job: impl FnOnce(Rendezvous) -> RankJob,
        stage: &CancelToken,
    ) -> Result<RunningJob> {
        while self.has_running_job.swap(true, Ordering::SeqCst) {
            stage.check()?;
            std::thread::sleep(POLL_INTERVAL);
        }
        let number = self.next_job.fetch_add(1, Ordering::SeqCst);
        let (host, port, timeout) = (self.host.clone(), self.port, self.timeout);
        let (prefix, token) = (format!("{}/group/{number}", self.messages.prefix()), self.token.clone());
        let rendezvous = Rendezvous { host, port, prefix, timeout, token, nccl_host_id: self.nccl_host_id.clone() };
        let process_group =
            ProcessGroup { rank: 0, world_size: self.world_size, local_rank: 0, rendezvous: Some(rendezvous.clone()) };
        let mut running =
            RunningJob { group: Arc::clone(self), number, process_group, is_done: Arc::default(), watcher: None };
        self.messages.put(&format!("job/{number}"), &job(rendezvous))?;
        let (group, done, cancel) = (Arc::clone(self), Arc::clone(&running.is_done), stage.clone());
        let watch = move || {
            while !done.load(Ordering::SeqCst) {
                // Errors of the store are ignored here. The stage itself gets them too.
                let failed = |outcome| !matches!(outcome, Ok(None | Some(RankOutcome::Done)) | Err(_));
                if (1..group.world_size).any(|rank| failed(group.rank_outcome(rank, number))) {
                    cancel.cancel();
                    return;
                }
                std::thread::sleep(4 * POLL_INTERVAL);
            }
        };
        let thread = std::thread::Builder::new().name("watch ranks".to_owned()).spawn(watch);
        running.watcher = Some(thread.map_err(|error| Error::internal(format!("no thread: {error}")))?);
        Ok(running)
    }

    /// Outcome of a job on a rank; `None` while it is running.
    fn rank_outcome(&self, rank: usize, job: u64) -> Result<Option<RankOutcome>> {
        let exit = self.children().exit_status(rank);
        if let Some(outcome) = self.reported_outcome(rank, job)? {
            return Ok(Some(outcome));
        }
        let Some(status) = exit else { return Ok(None) };
        // A report may still be on its way.
        std::thread::sleep(4 * POLL_INTERVAL);
        let outcome = self.reported_outcome(rank, job)?;
        Ok(Some(outcome.unwrap_or_else(|| RankOutcome::Died(describe_exit(status)))))
    }

    fn reported_outcome(&self, rank: usize, job: u64) -> Result<Option<RankOutcome>> {
        for name in [format!("report/{job}/{rank}"), format!("left/{rank}")] {
            if let Some(report) = self.messages.get::<ResultMessage>(&name)? {
                let failed = |failure| RankOutcome::Failed(Error::from(failure));
                return Ok(Some(report.result.map_or_else(failed, |()| RankOutcome::Done)));
            }
        }
        Ok(None)
    }

    /// Sends the result of the run to all ranks, and waits a few seconds for them to end.
    #[expect(clippy::disallowed_methods, reason = "waiting for another process is not work")]
    pub fn end_run(&self, result: Result<(), &Error>) {
        let begun = Instant::now();
        let mut remaining: Vec<usize> = (1..self.world_size).collect();
        if self.messages.put("end", &ResultMessage { result: result.map_err(ErrorMessage::from) }).is_ok() {
            while !remaining.is_empty() && begun.elapsed() < SHUTDOWN_TIMEOUT {
                remaining.retain(|rank| {
                    let farewells = ["bye", "left"].map(|name| self.messages.get::<Value>(&format!("{name}/{rank}")));
                    farewells.iter().all(|message| matches!(message, Ok(None)))
                        && self.children().exit_status(*rank).is_none()
                });
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        self.children().wait(SHUTDOWN_TIMEOUT.saturating_sub(begun.elapsed()));
    }

    fn children(&self) -> std::sync::MutexGuard<'_, ChildProcesses> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn required_backend(options: &RankOptions, world_size: usize) -> Result<&'static dyn RendezvousBackend> {
    options
        .backend
        .ok_or_else(|| Error::usage(format!("{world_size} ranks requested, but this program cannot connect ranks")))
}

/// Outcome of a job on a rank.
enum RankOutcome {
    Done,
    /// The rank reported an error.
    Failed(Error),
    /// The process exited without a report. The text says how.
    Died(String),
}

/// A job that is running on all ranks.
pub(crate) struct RunningJob {
    group: Arc<WorkerGroup>,
    number: u64,
    /// Process group of the job, as rank 0.
    pub process_group: ProcessGroup,
    is_done: Arc<AtomicBool>,
    watcher: Option<std::thread::JoinHandle<()>>,
}

impl RunningJob {
    /// Ends the job, which has the given result on rank 0. Waits for the other ranks if it succeeded, else stops them.
    /// Returns the result of all ranks, which is an error if any of them failed. `run` is the token of the run.
    pub fn finish(mut self, result: Result<()>, run: &CancelToken) -> Result<()> {
        self.stop_watching();
        let result = match result {
            Ok(()) => self.wait(run),
            Err(own) => Err(self.root_cause(own, run)),
        };
        if self.group.is_launched_here {
            self.group.end_run(result.as_ref().copied());
        }
        result
    }

    #[expect(clippy::disallowed_methods, reason = "waiting for another process is not work")]
    fn wait(&self, run: &CancelToken) -> Result<()> {
        let begun = Instant::now();
        for rank in 1..self.group.world_size {
            loop {
                match self.group.rank_outcome(rank, self.number)? {
                    Some(RankOutcome::Done) => break,
                    Some(RankOutcome::Failed(error)) => return Err(self.failure_error(rank, &error)),
                    Some(RankOutcome::Died(how)) => return Err(self.death_error(rank, &how)),
                    None if begun.elapsed() > self.group.timeout => {
                        let seconds = self.group.timeout.as_secs();
                        return Err(Error::stage(format!("rank {rank} has not ended {seconds} s after rank 0")));
                    }
                    None => run.check()?,
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        Ok(())
    }

    /// Finds the root cause among the errors of all ranks, when rank 0 failed with `own`. Stops the other ranks.
    #[expect(clippy::disallowed_methods, reason = "waiting for another process is not work")]
    fn root_cause(&self, own: Error, run: &CancelToken) -> Error {
        let begun = Instant::now();
        let _ = self.group.messages.put(&format!("stop/{}", self.number), &true);
        if !own.is_peer() && (own.category() != ErrorCategory::Interrupted || run.is_cancelled()) {
            return own;
        }
        let mut silent: Vec<usize> = (1..self.group.world_size).collect();
        let mut interrupted = false;
        while !silent.is_empty() && begun.elapsed() < SHUTDOWN_TIMEOUT {
            let mut waiting_for = Vec::new();
            for rank in silent {
                match self.group.rank_outcome(rank, self.number) {
                    Ok(Some(RankOutcome::Died(how))) => return self.death_error(rank, &how),
                    // A consequence of the failure of another rank.
                    Ok(Some(RankOutcome::Failed(error))) if error.is_peer() => {}
                    Ok(Some(RankOutcome::Failed(error))) if error.category() == ErrorCategory::Interrupted => {
                        interrupted = true;
                    }
                    Ok(Some(RankOutcome::Failed(error))) => return self.failure_error(rank, &error),
                    Ok(Some(RankOutcome::Done)) => {}
                    Ok(None) | Err(_) => waiting_for.push(rank),
                }
            }
            silent = waiting_for;
            std::thread::sleep(POLL_INTERVAL);
        }
        if interrupted {
            return Error::interrupted();
        }
        match silent.first() {
            Some(&rank) => self.death_error(rank, &format!("does not answer: {own}")),
            None => own,
        }
    }

    /// Error of the stage for an error that another rank reported.
    fn failure_error(&self, rank: usize, error: &Error) -> Error {
        let named = Error::new(error.category(), format!("rank {rank} of {}: {error}", self.group.world_size));
        named.hint(error.hint_text().unwrap_or(RESUME_HINT))
    }

    fn death_error(&self, rank: usize, how: &str) -> Error {
        Error::stage(format!("rank {rank} of {} {how}", self.group.world_size)).hint(RESUME_HINT)
    }

    fn stop_watching(&mut self) {
        self.is_done.store(true, Ordering::SeqCst);
        if let Some(watch) = self.watcher.take() {
            let _ = watch.join();
        }
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        self.stop_watching();
        // Stops the ranks that still work if this one panicked.
        let _ = self.group.messages.put(&format!("stop/{}", self.number), &true);
        self.group.has_running_job.store(false, Ordering::SeqCst);
    }
}

/// Maximum number of ranks to launch for each CPU of this machine.
const MAX_RANKS_PER_PROCESSOR: usize = 4;

/// Coordinator of the ranks of a run.
pub(crate) struct RankCoordinator<'e> {
    pub options: &'e RankOptions,
    /// Description of the plan, which must be the same on all ranks.
    pub description: Value,
    /// Ranks that the program was launched as, if there are several.
    pub worker_group: Option<Arc<WorkerGroup>>,
}

/// Identity, inputs and state of a stage that requests a process group.
pub(crate) struct JobRequest<'s> {
    pub identity: &'s ArtefactIdentity,
    pub inputs: &'s StageInputs,
    pub state: Option<FileEntry>,
    /// Numbers of committed parts, by table.
    pub committed: BTreeMap<String, usize>,
}

impl RankCoordinator<'_> {
    /// Starts a stage on `world_size` ranks, or, if that is 1, on those that the program was launched as. Returns the
    /// job and the number of threads of each rank; `None` if there is one process. Waits until all inputs are complete,
    /// and calls `waiting` if it has to wait.
    pub fn start_job(
        &self,
        world_size: usize,
        request: JobRequest<'_>,
        resources: &Resources,
        waiting: OnWait<'_>,
    ) -> Result<Option<(RunningJob, usize)>> {
        let launched = self.ranks_to_launch(world_size)?;
        if launched.is_none() && self.worker_group.is_none() {
            return Ok(None);
        }
        let stop = &resources.cancel;
        let CompleteInputs { parts, files } = request.inputs.wait_until_complete(stop, waiting)?;
        waiting("other ranks");
        let group = match (launched, &self.worker_group) {
            (None, Some(group)) => Arc::clone(group),
            (launched, _) => WorkerGroup::launch(self.options, launched.unwrap_or(1), &self.description, stop)?,
        };
        let job = |rendezvous| RankJob {
            stage: request.inputs.stage.clone(),
            identity: request.identity.clone(),
            parts,
            files,
            state: request.state,
            committed: request.committed,
            rendezvous,
        };
        let threads = threads_per_process(resources.threads, group.local_world_size());
        Ok(Some((group.start_job(job, stop)?, threads)))
    }

    /// Number of ranks to launch for a stage; `None` if the stage runs on those that are there.
    fn ranks_to_launch(&self, world_size: usize) -> Result<Option<usize>> {
        if world_size <= 1 {
            return Ok(None);
        }
        if let Some(group) = &self.worker_group {
            let launched = group.world_size();
            return if world_size == launched {
                Ok(None)
            } else {
                Err(Error::usage(format!(
                    "the stage requests {world_size} ranks, but the program was launched as {launched}"
                ))
                .hint(format!("leave out `ranks`, or launch {world_size} ranks")))
            };
        }
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        if world_size > MAX_RANKS_PER_PROCESSOR * cpus {
            return Err(Error::usage(format!(
                "{world_size} ranks, expected at most {}: {MAX_RANKS_PER_PROCESSOR} for each of the {cpus} CPUs of this machine",
                MAX_RANKS_PER_PROCESSOR * cpus
            ))
            .hint("launch more ranks on several machines, with `torchrun` or `srun`"));
        }
        Ok(Some(world_size))
    }
}
