//! `pairloom runs`.

use super::args::{Common, Runs};
use super::bytes::seconds;
use super::open;
use super::output::{Output, columns};
use crate::error::{Result, visible};
use crate::store::record::{Outcome, RunRecord, all_records};

/// Lists the latest runs of a store, and warns of those whose record cannot be read.
///
/// # Errors
/// The store cannot be read.
pub(super) fn runs(common: &Common, arguments: &Runs, output: Output) -> Result<()> {
    let store = open::existing_store(common)?;
    let readable = |record: Result<RunRecord>| {
        record.inspect_err(|error| output.note(&format!("warning: {}\n", visible(&error.to_string())))).ok()
    };
    let latest = all_records(&store)?.filter_map(readable).take(arguments.limit);
    if output.json {
        for record in latest {
            output.object(&record)?;
        }
        return Ok(());
    }
    let title = ["run", "pipeline", "outcome", "reused", "ran", "time", "expectations"].map(str::to_owned).to_vec();
    let mut rows = vec![title];
    rows.extend(latest.map(|record| row(&record)));
    output.data(&columns(&rows, &[false, false, false, true, true, true, false]))
}

fn row(record: &RunRecord) -> Vec<String> {
    let outcome = match record.outcome {
        Outcome::Unfinished => "unfinished",
        Outcome::Finished => "finished",
        Outcome::Failed => "failed",
        Outcome::Interrupted => "interrupted",
    };
    let reused = record.stages.iter().filter(|stage| stage.reused).count();
    let ran = record.stages.iter().filter(|stage| stage.seconds.is_some()).count();
    let time =
        record.finished.map(|finished| seconds((finished - record.started).total(jiff::Unit::Second).unwrap_or(0.0)));
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
