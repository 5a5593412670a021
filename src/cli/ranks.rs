//! Distributed runs: the rank of this process, its connection to the other ranks, and the work of ranks above 0.

use std::time::Duration;

use super::args::{CommonArgs, PipelineArgs};
use super::console::Console;
use super::siblings::Sibling;
use super::start::{Program, TorchFunctions};
use super::units::format_items;
use super::{interrupt, open};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_engine::ranks::{RankEnvironment, RankOptions, report_startup_error, run_follower as run_jobs};
use pairloom_pipeline::Diagnostics;

/// Rank of this process in a process group that a launcher started, from the environment.
///
/// # Errors
/// Environment variables are invalid or contradict each other.
pub(super) fn rank_environment() -> Result<Option<RankEnvironment>> {
    RankEnvironment::from_variables(&|name| std::env::var(name).ok())
}

/// Options for a run with several processes.
pub(super) fn rank_options(
    common: &CommonArgs,
    torch: Option<TorchFunctions>,
    environment: Option<&RankEnvironment>,
) -> RankOptions {
    let program = std::env::current_exe().ok().map(std::path::PathBuf::into_os_string);
    RankOptions {
        backend: torch.map(|torch| torch.rendezvous),
        environment: environment.cloned(),
        command: program.into_iter().chain(std::env::args_os().skip(1)).collect(),
        timeout: Duration::from_secs(common.rank_timeout),
        abort_process: Some(interrupt::exit_as_failed),
    }
}

/// Runs jobs for rank 0 until the run ends.
///
/// # Errors
/// The error that ended the run. Without a message in a process that rank 0 started, since rank 0 prints it.
pub(super) fn run_follower(
    common: &CommonArgs,
    arguments: &PipelineArgs,
    program: &Program,
    environment: &RankEnvironment,
    console: Console,
) -> Result<()> {
    let Some(torch) = program.torch else { return Err(Sibling::Torch.hand_over()) };
    let cancel = CancelToken::new();
    // Rank 0 announces the interrupt.
    interrupt::cancel_on_signal(&cancel, || ())?;
    let options = open::run_options(common, &arguments.file, rank_options(common, Some(torch), Some(environment)));
    let work = || {
        let pipeline = match open::load_pipeline(arguments, true, program) {
            // Rank 0 checks expectations, and tells what it lacks.
            Ok((pipeline, _)) => pipeline,
            Err(diagnostics) => {
                let _ = open::print_diagnostics(&diagnostics, console);
                return Err(report_startup_error(
                    &options,
                    environment,
                    mistakes_error(&diagnostics, arguments),
                    &cancel,
                ));
            }
        };
        let store = match open::open_store(common) {
            Ok(store) => store,
            Err(error) => return Err(report_startup_error(&options, environment, error, &cancel)),
        };
        run_jobs(&pipeline.plan, torch.run_stage, &store, &options, environment, &cancel)
    };
    work().map_err(|error| match environment {
        RankEnvironment { is_launched_here: true, .. } => Error::new(error.category(), ""),
        _ => error.context(format!("rank {}", environment.rank)),
    })
}

/// Error for the other ranks about a pipeline file whose mistakes were printed here.
pub(super) fn mistakes_error(diagnostics: &Diagnostics, arguments: &PipelineArgs) -> Error {
    let (mistakes, file) = (format_items(diagnostics.error_count(), "mistakes"), arguments.file.display());
    Error::usage(format!("its pipeline file `{file}` has {mistakes}"))
}
