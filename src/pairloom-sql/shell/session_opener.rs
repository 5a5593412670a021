//! Sessions of the shell: each is bound to one run, which `\run` and `\pipeline` change.

use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use pairloom_base::error::Result;
use pairloom_base::runtime::NamedFile;
use pairloom_cli::console::Console;
use pairloom_cli::open::open_log;
use pairloom_cli::run_choice::choose_run_for_queries;
use pairloom_cli::run_choice_args::RunChoiceArgs;
use pairloom_query::{PlanRunner, QueryLimits, Session, VECTOR_CACHE_BYTES};
use pairloom_store::Store;
use pairloom_store::record::RunRecord;
use pairloom_store::run_log::RunLog;

/// Number of recent runs whose names are completed.
const COMPLETED_RUNS: usize = 50;

/// Opener of sessions over a store.
pub(crate) struct SessionOpener<'s> {
    store: &'s Store,
    files: &'s [NamedFile],
    runner: Option<Arc<dyn PlanRunner>>,
    limits: QueryLimits,
    console: Console,
}

/// Session and the run of its tables.
pub(crate) struct OpenSession {
    pub(crate) session: Rc<Session>,
    /// Run of the tables; `None` if no run has finished.
    pub(crate) run: Option<RunRecord>,
    log: Arc<RunLog>,
}

impl<'s> SessionOpener<'s> {
    pub(crate) fn new(
        store: &'s Store,
        files: &'s [NamedFile],
        runner: Option<Arc<dyn PlanRunner>>,
        limits: QueryLimits,
        console: Console,
    ) -> Self {
        Self { store, files, runner, limits, console }
    }

    /// Opens a session over the run that `choice` names. Runs since the last call are seen.
    ///
    /// # Errors
    /// There is no such run, the store cannot be read, or two files have one name.
    pub(crate) fn open(&self, choice: &RunChoiceArgs) -> Result<OpenSession> {
        let log = Arc::new(open_log(self.store, self.console)?);
        let run = choose_run_for_queries(&log, choice)?.cloned();
        let session = Session::of_run(&log, run.as_ref())?;
        let session = match &self.runner {
            Some(runner) => session.with_runner(Arc::clone(runner)),
            None => session.with_vector_cache(VECTOR_CACHE_BYTES),
        };
        let session = session.with_limits(self.limits)?;
        for file in self.files {
            session.add_file(file.clone())?;
        }
        Ok(OpenSession { session: Rc::new(session), run, log })
    }
}

impl OpenSession {
    /// Prints the name of the run to stderr, if there is one.
    pub(crate) fn print_run(&self, more: &str, console: Console) {
        if let Some(run) = &self.run {
            console.note(&format!("run {} of {}{more}", run.run, run.pipeline));
        }
    }

    /// Names of the latest runs.
    pub(super) fn run_names(&self) -> Vec<String> {
        self.log.readable().take(COMPLETED_RUNS).map(|run| run.run.clone()).collect()
    }

    /// Pipelines of the latest runs: their paths, and the names of their files without extension.
    pub(super) fn pipelines(&self) -> Vec<String> {
        let paths = self.log.readable().take(COMPLETED_RUNS).map(|run| run.pipeline.as_str());
        let stem = |path: &str| Some(Path::new(path).file_stem()?.to_string_lossy().into_owned());
        let names: BTreeSet<String> = paths.flat_map(|path| [Some(path.to_owned()), stem(path)]).flatten().collect();
        names.into_iter().collect()
    }
}
