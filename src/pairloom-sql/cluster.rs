//! `pairloom cluster scheduler` and `pairloom cluster executor`: the processes of a cluster.

use std::sync::Arc;

use futures::channel::oneshot;
use serde::Serialize;

use super::answer::at_end_of_stdin;
use super::process_memory::limit_to_machine;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::ClusterUrl;
use pairloom_cli::args::{ClusterCommand, CommonArgs, ExecutorArgs, SchedulerArgs};
use pairloom_cli::console::Console;
use pairloom_cli::interrupt::stop_on_signal;
use pairloom_cli::open;
use pairloom_cluster::{
    ClusterPlans, ExecutorEvent, ExecutorOptions, SchedulerOptions, run_executor, run_scheduler, run_sections,
};
use pairloom_query::PlanRunner;
use pairloom_store::Store;

/// Process that is ready, as JSON.
#[derive(Serialize)]
struct ReadyJson {
    event: &'static str,
    uri: String,
}

/// Runs a process of a cluster until Ctrl-C or SIGTERM.
///
/// # Errors
/// The store cannot be read; an address is wrong; the scheduler cannot be reached.
pub(super) fn cluster(common: &CommonArgs, command: &ClusterCommand, console: Console) -> Result<()> {
    limit_to_machine()?;
    match command {
        ClusterCommand::Scheduler(arguments) => scheduler(arguments, console),
        ClusterCommand::Executor(arguments) => executor(common, arguments, console),
    }
}

fn scheduler(arguments: &SchedulerArgs, console: Console) -> Result<()> {
    let options = SchedulerOptions {
        address: arguments.address,
        allow_remote: arguments.allow_remote,
        executor_timeout: arguments.executor_timeout,
    };
    let stopped = stop_on_signal()?;
    let listening = |address| {
        let uri = format!("http://{address}");
        if console.json {
            return console.print_json(&ReadyJson { event: "listening", uri });
        }
        console.note(&format!(
            "scheduler at {uri}; `pairloom cluster executor --scheduler {uri}` adds executors; Ctrl-C ends it"
        ));
        Ok(())
    };
    let refused = move |reason: &str| console.note(&format!("refused: {reason}"));
    run_scheduler(&options, listening, refused, stopped)
}

fn executor(common: &CommonArgs, arguments: &ExecutorArgs, console: Console) -> Result<()> {
    let store = open::open_store(common)?;
    let options = ExecutorOptions {
        scheduler: arguments.scheduler.clone(),
        address: arguments.address,
        allow_remote: arguments.allow_remote,
        external_host: arguments.external_host.clone(),
        ports: [arguments.rows_port, arguments.tasks_port],
        threads: open::threads(common),
        query_memory: arguments.query_memory,
        folder: arguments.folder.clone().unwrap_or_else(std::env::temp_dir),
    };
    let (scheduler, threads) = (&arguments.scheduler, options.threads);
    let report = |event| {
        match event {
            ExecutorEvent::Ready if console.json => {
                return console.print_json(&ReadyJson { event: "registered", uri: scheduler.to_string() });
            }
            ExecutorEvent::Ready => console
                .note(&format!("executor with {threads} threads for the scheduler at {scheduler}; Ctrl-C ends it")),
            ExecutorEvent::LostScheduler => console.note(&format!(
                "the scheduler at {scheduler} does not answer any more; the executor waits a minute for another one there"
            )),
            ExecutorEvent::Stopping => {
                console.note("stopping: the executor finishes its tasks. Interrupt again to stop at once");
            }
        }
        Ok(())
    };
    run_executor(&options, &store, report)
}

/// Runner of queries on a cluster, if there is one.
///
/// # Errors
/// The store cannot be read.
pub(super) fn plan_runner(cluster: Option<&ClusterUrl>, store: &Store) -> Result<Option<Arc<dyn PlanRunner>>> {
    let runner = |url: &ClusterUrl| Ok(Arc::new(ClusterPlans::new(url.clone(), store)?) as Arc<dyn PlanRunner>);
    cluster.map(runner).transpose()
}

/// Runs sections of a search job, which is given as the folder of its objects and its digest, until stdin ends.
///
/// # Errors
/// A section failed; the scheduler cannot be reached; stdin ended.
pub(super) fn search_sections(
    cluster: &str,
    store: &Store,
    (folder, job): (&str, &str),
    sections: &[usize],
) -> Result<()> {
    let url: ClusterUrl = cluster.parse().map_err(Error::usage)?;
    let (stop, stopped) = oneshot::channel();
    at_end_of_stdin(move || {
        // The job may have ended.
        let _ = stop.send(());
    });
    run_sections(&url, store, folder, job, sections, stopped)
}
