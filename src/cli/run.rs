//! `pairloom run FILE`.

use super::args::{Common, Pipeline as Arguments};
use super::output::Output;
use super::progress::Progress;
use super::start::Execute;
use super::{expect, handover, interrupt, open, summary};
use crate::engine::cancel::Cancel;
use crate::engine::run::{Summary, reuse};
use crate::engine::status::status;
use crate::engine::store::Store;
use crate::error::{Error, Kind, Result};
use crate::pipeline::Pipeline;

/// Runs what is missing of a pipeline, and checks what is expected of the results.
///
/// # Errors
/// Mistakes of the pipeline file, the error that ended the run, an expectation that did not hold.
pub(super) fn run(common: &Common, arguments: &Arguments, execute: Option<Execute>, output: Output) -> Result<()> {
    let pipeline =
        open::pipeline(&arguments.file, &arguments.set, true).map_err(|faults| open::show(&faults, output))?;
    let store = open::store(common)?;
    let options = open::options(common, &arguments.file);
    // Every mapped shard is an open file. Where no more can be had, running out of them is an error that says so.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let cancel = Cancel::new();
    interrupt::watch(&cancel)?;
    let progress = Progress::new(output);
    let observer = |event: &crate::engine::event::Event| progress.see(event);
    let summary = match execute {
        Some(execute) => {
            open::note_threads(common, output);
            execute(&pipeline.plan, &store, &options, &cancel, &observer)?
        }
        None => {
            let statuses = status(&pipeline.plan, &store, options.threads, &cancel, &observer)?;
            progress.clear();
            match reuse(&statuses, &store, &options, &observer)? {
                Some(summary) => summary,
                None => return Err(handover::hand_over()),
            }
        }
    };
    progress.clear();
    finish(&pipeline, &store, summary, &progress, output)
}

/// Checks expectations, shows what happened, and turns it into a result.
fn finish(pipeline: &Pipeline, store: &Store, mut summary: Summary, progress: &Progress, output: Output) -> Result<()> {
    let checked = match &summary.error {
        None => expect::check(pipeline, store, &mut summary.record),
        Some(_) => Ok(()),
    };
    summary::show(store, &summary, progress, output)?;
    if let Some(error) = summary.error {
        return Err(error);
    }
    checked?;
    match summary.record.expectations.iter().filter(|expectation| !expectation.held).count() {
        0 => Ok(()),
        n => {
            let all = summary.record.expectations.len();
            Err(Error::new(Kind::Expectation, format!("{n} of {all} expectations did not hold")))
        }
    }
}
