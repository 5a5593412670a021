//! Session of the latest run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::NamedFile;
use pairloom_query::{PlanRunner, Session, VECTOR_CACHE_BYTES};
use pairloom_store::Store;
use pairloom_store::record::RunLog;
use pairloom_store::record::{RunOutcome, RunRecord};

/// Time after which the server looks for a newer run.
const REFRESH: Duration = Duration::from_secs(1);

/// Chooses the run of the tables `stage.table`.
pub type RunChooser = Box<dyn Fn(&RunLog) -> Result<Option<RunRecord>> + Send + Sync>;

/// Opens sessions over the chosen run. A query that has begun keeps its session.
pub struct Sessions {
    store: Store,
    choose: RunChooser,
    files: Vec<NamedFile>,
    /// Processes that run the queries; this one without it.
    runner: Option<Arc<dyn PlanRunner>>,
    current: Mutex<Option<Current>>,
}

/// Session, with what it was opened for, and when this was last compared with the store.
struct Current {
    run: Option<RunRecord>,
    log: LogState,
    session: Arc<Session>,
    checked: Instant,
}

/// State of a log, which changes when a run begins or ends: the names of its runs, and the outcomes of those that began
/// after the latest one that has finished.
#[derive(PartialEq, Eq)]
struct LogState {
    names: Vec<String>,
    outcomes: Vec<RunOutcome>,
}

impl LogState {
    fn of(log: &RunLog) -> Self {
        let later = log.readable().map(|run| run.outcome).take_while(|outcome| *outcome != RunOutcome::Finished);
        Self { names: log.names().to_vec(), outcomes: later.collect() }
    }
}

impl Sessions {
    /// Sessions over a store.
    #[must_use]
    pub fn new(store: Store, choose: RunChooser, files: Vec<NamedFile>) -> Self {
        Self { store, choose, files, runner: None, current: Mutex::default() }
    }

    /// Lets other processes run the queries.
    #[must_use]
    pub fn with_runner(self, runner: Option<Arc<dyn PlanRunner>>) -> Self {
        Self { runner, ..self }
    }

    /// Session over the run that is chosen now. Waits for the store.
    ///
    /// # Errors
    /// The store cannot be read, or there is no such run.
    pub fn current(&self) -> Result<Arc<Session>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = &*current
            && current.checked.elapsed() < REFRESH
        {
            return Ok(Arc::clone(&current.session));
        }
        let log = Arc::new(RunLog::open(&self.store)?);
        let (state, checked) = (LogState::of(&log), Instant::now());
        if let Some(current) = &mut *current
            && current.log == state
        {
            current.checked = checked;
            return Ok(Arc::clone(&current.session));
        }
        let run = (self.choose)(&log)?;
        let session = Session::of_run(&log, run.as_ref())?;
        let session = match &self.runner {
            Some(runner) => session.with_runner(Arc::clone(runner)),
            None => session.with_vector_cache(VECTOR_CACHE_BYTES),
        };
        for file in &self.files {
            session.add_file(file.clone())?;
        }
        let session = Arc::new(session);
        *current = Some(Current { run, log: state, session: Arc::clone(&session), checked });
        Ok(session)
    }

    /// As [`Sessions::current`], on a thread that may wait.
    ///
    /// # Errors
    /// As [`Sessions::current`].
    pub(super) async fn wait_for_current(self: &Arc<Self>) -> Result<Arc<Session>> {
        let sessions = Arc::clone(self);
        let opened = tokio::task::spawn_blocking(move || sessions.current()).await;
        opened.map_err(|error| Error::internal(format!("opening a session: {error}")))?
    }

    /// Run of the last session that was opened.
    #[must_use]
    pub fn run(&self) -> Option<RunRecord> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().and_then(|current| current.run.clone())
    }
}
