//! `pairloom run FILE`.

use super::args::{Common, Pipeline as Arguments};
use super::output::Output;
use super::progress::Progress;
use super::torch::Torch;
use super::{expect, handover, interrupt, open, ranks, summary};
use crate::engine::ranks::{Place, decline};
use crate::engine::run::{Options, Summary, reuse};
use crate::engine::status::status;
use crate::error::{Error, Kind, Result};
use crate::pipeline::Pipeline;
use crate::runtime::Cancel;
use crate::stages::AnyStage;
use crate::store::Store;

/// Runs what is missing of a pipeline, and checks what is expected of the results.
///
/// # Errors
/// Mistakes of the pipeline file, the error that ended the run, an expectation that did not hold.
pub(super) fn run(common: &Common, arguments: &Arguments, torch: Option<Torch>, output: Output) -> Result<()> {
    let place = ranks::place()?;
    match &place {
        Some(place) if place.rank > 0 => return ranks::follow(common, arguments, torch, place, output),
        // Other ranks wait for this one, even if it has nothing to run.
        Some(_) if torch.is_none() => return Err(handover::hand_over()),
        _ => {}
    }
    let options = open::options(common, &arguments.file, ranks::options(common, torch, place.as_ref()));
    let (pipeline, store) = match open::pipeline(&arguments.file, &arguments.set, true) {
        Ok(pipeline) => (pipeline, open::store(common).map_err(|error| declined(error, place.as_ref(), &options))?),
        Err(faults) => {
            declined(ranks::mistakes(&faults, arguments), place.as_ref(), &options);
            return Err(open::show(&faults, output));
        }
    };
    // Every mapped shard is an open file. Where no more can be had, running out of them is an error that says so.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let cancel = Cancel::new();
    interrupt::watch(&cancel)?;
    let progress = Progress::new(output);
    let observer = |event: &crate::engine::event::Event| progress.see(event);
    let summary = match torch {
        Some(torch) => {
            open::note_threads(common, output);
            (torch.execute)(&pipeline.plan, &store, &options, &cancel, &observer)?
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

/// Ends the run of the other ranks, if there are any, with an error of this one.
fn declined(error: Error, place: Option<&Place>, options: &Options) -> Error {
    match place {
        Some(place) => decline(options, place, error, &Cancel::new()),
        None => error,
    }
}

/// Checks expectations, shows what happened, and turns it into a result.
fn finish(
    pipeline: &Pipeline<AnyStage>,
    store: &Store,
    mut summary: Summary,
    progress: &Progress,
    output: Output,
) -> Result<()> {
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
