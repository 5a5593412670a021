//! `pairloom run FILE`: runs a pipeline.

use std::ffi::OsStr;
use std::sync::Arc;

use super::args::{CommonArgs, RunArgs};
use super::console::Console;
use super::program::Program;
use super::progress::ProgressDisplay;
use super::section_runner::ClusterSections;
use super::siblings::Sibling;
use super::units::format_items;
use super::{expectations, interrupt, open, ranks, run_scores, summary};
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_base::runtime::{CancelToken, Device};
use pairloom_engine::ranks::{RankEnvironment, report_startup_error};
use pairloom_engine::run::{execute, finish_reused, hold_store};
use pairloom_engine::run_options::RunOptions;
use pairloom_engine::run_record::RunSummary;
use pairloom_engine::status::{StageStatus, stage_statuses};
use pairloom_pipeline::Pipeline;
use pairloom_registry::AnyStage;
use pairloom_stage::RunStage;
use pairloom_store::Store;
use pairloom_store::search_tasks::SearchTasks;

/// Runs the stages of a pipeline whose results are missing, and checks its expectations.
///
/// # Errors
/// The pipeline file has mistakes, a stage failed, or an expectation did not hold.
pub(super) fn run(common: &CommonArgs, run: &RunArgs, program: &Program, console: Console) -> Result<()> {
    let torch = program.torch;
    let arguments = &run.pipeline;
    let environment = ranks::rank_environment()?;
    match &environment {
        Some(environment) if environment.rank > 0 => {
            return ranks::run_follower(common, arguments, program, environment, console);
        }
        // Other ranks wait for this one even if no stage has to run.
        Some(_) if torch.is_none() => return Err(Sibling::Torch.hand_over()),
        _ => {}
    }
    let mut options =
        open::run_options(common, &arguments.file, ranks::rank_options(common, torch, environment.as_ref()));
    options.keep_going = run.keep_going;
    options.trust_folder_times = arguments.trust_folder_times;
    // Processes that were launched together run one stage after another.
    options.jobs = if environment.is_some() { 1 } else { run.jobs.map_or(1, usize::from) };
    let (pipeline, store) = match open::load_pipeline(arguments, true, program) {
        Ok((pipeline, unchecked)) => {
            let needs_cluster = run.cluster.cluster.is_some() && program.sql.is_none();
            let absent = unchecked.or_else(|| Sibling::SqlServer.path().err().filter(|_| needs_cluster));
            if let Some(error) = absent {
                return Err(abort_run(error, environment.as_ref(), &options));
            }
            options.command.overrides.clone_from(&arguments.set);
            options.command.profile.clone_from(&arguments.profile);
            options.command.only.clone_from(&arguments.only);
            options.command.except.clone_from(&arguments.except);
            options.command.environment.clone_from(&pipeline.variables);
            options.command.seed = Some(pipeline.seed);
            (pipeline, open::open_store(common).map_err(|error| abort_run(error, environment.as_ref(), &options))?)
        }
        Err(diagnostics) => {
            abort_run(ranks::mistakes_error(&diagnostics, arguments), environment.as_ref(), &options);
            return Err(open::print_diagnostics(&diagnostics, console));
        }
    };
    // Every mapped shard is an open file. If the limit cannot be raised, running out of files is an error of its own.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let cancel = CancelToken::new();
    let progress = Arc::new(ProgressDisplay::new(console));
    if let Some(url) = &run.cluster.cluster {
        let shown = Arc::clone(&progress);
        let note = move |operation: &str| {
            if console.verbose {
                shown.announce(&format!("not on the cluster: this process computes {operation}"));
            }
        };
        let runner = ClusterSections { cluster: url.clone(), store: common.store.clone() };
        options.remote = Some(Arc::new(SearchTasks::new(store.clone(), Box::new(runner), note)?));
    }
    let shown = Arc::clone(&progress);
    interrupt::cancel_on_signal(&cancel, move || interrupt::announce_interrupt(&shown))?;
    let observer = |event: &pairloom_engine::event::Event| progress.show(event);
    if let Some(kind) = store.unshared_locks() {
        console.note(&format!(
            "the store is on a disk of kind `{kind}`, whose locks other machines may not see: run on one machine at a time \
             (of two that build the same result, the one that began first ends with an error)"
        ));
    }
    let run_stages = |run_stage: RunStage<AnyStage>, options: &RunOptions| {
        open::note_thread_limit(common, console);
        open::print_warnings(&pipeline.warnings, console);
        let summary = execute(&pipeline.plan, run_stage, &store, options, &cancel, &observer);
        progress.clear();
        summary
    };
    let summary = match torch {
        Some(torch) => run_stages(torch.run_stage, &options)?,
        None => {
            // Otherwise results could be removed between the look at them and the record that they were used.
            let store_lock = hold_store(&store, &cancel, &observer)?;
            let statuses = stage_statuses(
                &pipeline.plan,
                &store,
                options.pipeline_identity(),
                options.source_reading(),
                &cancel,
                &observer,
            );
            progress.clear();
            let statuses = statuses?;
            match finish_reused(&statuses, &store, &options, &observer)? {
                Some(summary) => {
                    open::print_warnings(&pipeline.warnings, console);
                    summary
                }
                None if needs_tensors(&pipeline, &statuses) => {
                    drop(store_lock);
                    return Err(Sibling::Torch.hand_over());
                }
                // Stages without tensors compute on the processor, whatever the device of the others is. The lock is
                // held: a removed result of a stage with tensors could not be computed again here.
                None => {
                    options.device = Device::Cpu;
                    run_stages(AnyStage::run_without_tensors, &options)?
                }
            }
        }
    };
    finish(program, &pipeline, (&common.store, &store), summary, &progress, console)
}

/// True if a stage that has to run computes with tensors.
fn needs_tensors(pipeline: &Pipeline<AnyStage>, statuses: &[StageStatus]) -> bool {
    let stages = pipeline.plan.stages().iter().zip(statuses);
    stages.filter(|(_, status)| !status.is_reuse()).any(|(node, _)| node.stage.needs_tensors())
}

/// Ends the run of the other ranks, if any, with an error of this rank. Returns the error.
fn abort_run(error: Error, environment: Option<&RankEnvironment>, options: &RunOptions) -> Error {
    match environment {
        Some(environment) => report_startup_error(options, environment, error, &CancelToken::new()),
        None => error,
    }
}

/// Checks the expectations, prints the summary, and returns the result of the run.
fn finish(
    program: &Program,
    pipeline: &Pipeline<AnyStage>,
    (place, store): (&OsStr, &Store),
    mut summary: RunSummary,
    progress: &ProgressDisplay,
    console: Console,
) -> Result<()> {
    let checked = match &summary.error {
        None => {
            // The record is written once more, with everything that is known about the finished run.
            summary.record.scores = run_scores::best_scores(store, &summary.record)?;
            let checked = expectations::check_expectations(program, pipeline, (place, store), &mut summary.record);
            summary.record.save(store)?;
            checked
        }
        Some(_) => Ok(()),
    };
    summary::show_summary(store, &summary, progress, console)?;
    if let Some(error) = summary.error {
        return Err(error);
    }
    checked?;
    match summary.record.expectations.iter().filter(|expectation| !expectation.held).count() {
        0 => Ok(()),
        n => {
            let all = format_items(summary.record.expectations.len(), "expectations");
            Err(Error::new(ErrorCategory::Expectation, format!("{n} of {all} did not hold")))
        }
    }
}
