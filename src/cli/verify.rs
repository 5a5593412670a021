//! `pairloom verify`: reads results and compares them with their digests.

use std::collections::BTreeSet;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::args::{CommonArgs, VerifyArgs};
use super::console::{Console, one_line};
use super::open;
use super::run_choice::{announce_run, require_run};
use super::units::{format_bytes, format_items};
use pairloom_base::error::{Error, Result};
use pairloom_store::artefact::verify_artefact;
use pairloom_store::key::Key;
use pairloom_store::record::RunLog;
use pairloom_store::{Manifest, Presence, Store};

/// Look of the bar.
const BAR: &str = "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";

/// Reads the results of a run, or of the whole store with the records of its runs, and reports those that are damaged.
/// Damaged results are marked, so that the next run builds them again.
///
/// # Errors
/// A result or a record is damaged; there is no such run; or the store cannot be read.
pub(super) fn verify(common: &CommonArgs, arguments: &VerifyArgs, console: Console) -> Result<()> {
    let store = open::open_existing_store(common)?;
    let log = open::open_log(&store, console)?;
    let results: BTreeSet<(String, Key)> = if arguments.all {
        store.complete_artefacts()?.into_iter().collect()
    } else {
        let run = require_run(&log, &arguments.of)?;
        announce_run(run, &arguments.of, console);
        run.stages.iter().map(|stage| (stage.kind.clone(), stage.key.clone())).collect()
    };
    let mut found = Vec::with_capacity(results.len());
    for (kind, key) in results {
        let presence = store.artefact(&kind, &key).presence()?;
        found.push((kind, key, presence));
    }
    let total = found.iter().map(|(_, _, presence)| manifest(presence).map_or(0, Manifest::bytes)).sum();
    let bar = ProgressBar::new(total);
    if !console.has_bars {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar.set_style(ProgressStyle::with_template(BAR).map_err(|error| Error::internal(error.to_string()))?);
    let (mut sound, mut absent, mut damaged) = (0, 0, 0);
    for (kind, key, presence) in &found {
        let problems = problems_of(&store, (kind, key), presence, &|bytes| bar.inc(bytes))?;
        match (problems.is_empty(), presence) {
            (_, Presence::Absent) => absent += 1,
            (true, _) => sound += 1,
            (false, _) => damaged += 1,
        }
        if console.json {
            let state = match presence {
                Presence::Absent => "absent",
                _ if problems.is_empty() => "sound",
                _ => "damaged",
            };
            let bytes = manifest(presence).map_or(0, Manifest::bytes);
            console.print_json(&json!({
                "kind": kind, "key": key, "name": format!("{kind}/{key}"), "bytes": bytes, "state": state,
                "problems": problems,
            }))?;
        } else if !problems.is_empty() {
            bar.suspend(|| problems.iter().try_for_each(|problem| console.print(&format!("{}\n", one_line(problem)))))?;
        }
    }
    bar.finish_and_clear();
    if absent > 0 {
        console.note(&format!("{} of the run were removed or are unfinished", format_items(absent, "results")));
    }
    let unreadable = if arguments.all { unreadable_records(&log, console)? } else { 0 };
    if unreadable > 0 {
        let results = if damaged > 0 { format!(", {damaged} of {} results", damaged + sound) } else { String::new() };
        let error = Error::data(format!("damaged: {} of runs{results}", format_items(unreadable, "records")));
        let results_hint =
            if damaged > 0 { "; run the pipelines of the results again, which rebuilds them" } else { "" };
        let records_hint = "bring the records back from a copy, or remove them: nothing computes them again";
        return Err(error.hint(format!("{records_hint}{results_hint}")));
    }
    if damaged > 0 {
        let error = Error::data(format!("{} of {} are damaged", damaged, format_items(damaged + sound, "results")));
        return Err(error.hint("run their pipelines again: a run rebuilds damaged results"));
    }
    console.note(&format!("{}, {}: all are as they were written", format_items(sound, "results"), format_bytes(total)));
    Ok(())
}

/// Number of damaged records of runs. The log warns of each.
fn unreadable_records(log: &RunLog, console: Console) -> Result<usize> {
    log.read_all()?;
    let mut unreadable = 0;
    for (i, run) in log.names().iter().enumerate() {
        let Some(Err(problem)) = log.record(i) else { continue };
        unreadable += 1;
        if console.json {
            let (name, problems) = (format!("runs/{run}"), [problem.to_string()]);
            console.print_json(&json!({
                "kind": "runs", "key": run, "name": name, "bytes": null, "state": "damaged", "problems": problems,
            }))?;
        }
    }
    Ok(unreadable)
}

fn manifest(presence: &Presence) -> Option<&Manifest> {
    match presence {
        Presence::Complete(manifest) => Some(manifest),
        Presence::Absent | Presence::Damaged(_) => None,
    }
}

/// Problems of a result, which is read whole.
fn problems_of(
    store: &Store,
    (kind, key): (&str, &Key),
    presence: &Presence,
    progress: &dyn Fn(u64),
) -> Result<Vec<String>> {
    let artefact = store.artefact(kind, key);
    Ok(match presence {
        Presence::Absent => Vec::new(),
        Presence::Damaged(problem) => vec![format!("`{}` is damaged: {problem}", artefact.display_path(""))],
        Presence::Complete(manifest) => {
            verify_artefact(&artefact, manifest, progress)?.iter().map(ToString::to_string).collect()
        }
    })
}
