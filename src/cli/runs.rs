//! `pairloom runs`: list of runs.

use super::args::{CommonArgs, RunsArgs};
use super::console::{Console, align_columns};
use super::open;
use super::units::format_duration;
use crate::error::{Result, escape_control};
use crate::store::record::{RunOutcome, RunRecord, try_records};

/// Lists the latest runs of a store, with a warning for each record that cannot be read.
///
/// # Errors
/// The store cannot be read.
pub(super) fn runs(common: &CommonArgs, arguments: &RunsArgs, console: Console) -> Result<()> {
    let store = open::open_existing_store(common)?;
    let readable = |record: Result<RunRecord>| {
        record.inspect_err(|error| console.info(&format!("warning: {}\n", escape_control(&error.to_string())))).ok()
    };
    let latest = try_records(&store)?.filter_map(readable).take(arguments.limit);
    if console.json {
        for record in latest {
            console.print_json(&record)?;
        }
        return Ok(());
    }
    let title = ["run", "pipeline", "outcome", "reused", "ran", "time", "expectations"].map(str::to_owned).to_vec();
    let mut rows = vec![title];
    rows.extend(latest.map(|record| row(&record)));
    console.print(&align_columns(&rows, &[false, false, false, true, true, true, false]))
}

fn row(record: &RunRecord) -> Vec<String> {
    let outcome = match record.outcome {
        RunOutcome::Unfinished => "unfinished",
        RunOutcome::Finished => "finished",
        RunOutcome::Failed => "failed",
        RunOutcome::Interrupted => "interrupted",
    };
    let reused = record.stages.iter().filter(|stage| stage.reused).count();
    let ran = record.stages.iter().filter(|stage| stage.seconds.is_some()).count();
    let time = record
        .finished
        .map(|finished| format_duration((finished - record.started).total(jiff::Unit::Second).unwrap_or(0.0)));
    let held = record.expectations.iter().filter(|expectation| expectation.held).count();
    let expectations = match record.expectations.len() {
        0 => String::new(),
        all => format!("{held} of {all} held"),
    };
    vec![
        record.run.clone(),
        record.pipeline.clone(),
        outcome.to_owned(),
        reused.to_string(),
        ran.to_string(),
        time.unwrap_or_default(),
        expectations,
    ]
}
