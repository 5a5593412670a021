//! `pairloom runs`: list of runs, with what differs between them.

use std::collections::HashMap;

use serde_json::json;

use super::args::{CommonArgs, RunsArgs};
use super::console::{Console, align_columns, one_line};
use super::open;
use super::units::{format_age, format_duration, format_score};
use crate::error::{Error, Result, TruncatedList, escape_control};
use crate::store::comparison::{RunDifference, compare_runs};
use crate::store::flat_settings;
use crate::store::labels::Labels;
use crate::store::record::RunRecord;
use crate::store::run_log::RunLog;

/// Differences shown for a run.
const SHOWN_DIFFERENCES: usize = 4;

/// Run in the list.
struct ListedRun<'l> {
    run: &'l RunRecord,
    /// Number of later runs that repeated it.
    repeats: usize,
    /// Differences from the different run of the same pipeline before it; `None` if it is the first.
    differences: Option<Vec<RunDifference>>,
}

/// Lists the runs of a store, latest first, with a warning for each record that cannot be read.
///
/// # Errors
/// The store cannot be read, or a filter is wrong.
pub(super) fn runs(common: &CommonArgs, arguments: &RunsArgs, console: Console) -> Result<()> {
    let log = RunLog::open(&open::open_existing_store(common)?)?;
    log.read_all()?;
    for error in log.iter().filter_map(Result::err) {
        console.info(&format!("warning: {}\n", escape_control(&error.to_string())));
    }
    let labels = Labels::read(log.store())?;
    let selected = select_runs(&log, &labels, arguments)?;
    let mut listed = list_runs(&selected, &labels, arguments.all);
    let (found, hidden) = (listed.len(), selected.len() - listed.len());
    listed.truncate(arguments.limit);
    add_differences(&log, &mut listed);
    if console.json {
        for listed in &listed {
            console.print_json(&run_json(listed, &labels))?;
        }
        return Ok(());
    }
    let title = ["run", "pipeline", "started", "outcome", "time", "score", "of", "labels", "what differs"];
    let mut rows = vec![title.map(str::to_owned).to_vec()];
    rows.extend(listed.iter().map(|listed| table_row(listed, &labels)));
    console.print(&align_columns(&rows, &[false, false, false, false, true, true, false, false, false]))?;
    if found > listed.len() {
        console.info(&format!("{} earlier runs are not shown: `--limit {found}` shows all\n", found - listed.len()));
    }
    if hidden > 0 {
        console.info(&format!("{hidden} runs that repeated a listed one are not shown: `--all` shows them\n"));
    }
    Ok(())
}

/// Runs that pass the filters, latest first.
fn select_runs<'l>(log: &'l RunLog, labels: &Labels, arguments: &RunsArgs) -> Result<Vec<&'l RunRecord>> {
    let pipeline = match &arguments.pipeline {
        Some(name) => Some(log.pipeline(name)?.ok_or_else(|| {
            Error::usage(format!("no run of this store has the pipeline `{name}`"))
                .hint("`SELECT DISTINCT pipeline FROM store.runs` lists the pipelines")
        })?),
        None => None,
    };
    let mut conditions = Vec::new();
    for condition in &arguments.settings {
        let parts = condition.split_once('=').and_then(|(name, value)| Some((name.split_once('.')?, value)));
        let Some(((stage, setting), value)) = parts else {
            return Err(Error::usage(format!("`--where {condition}`: wanted `STAGE.SETTING=VALUE`"))
                .hint("for example `--where fit.loss=max`; `pairloom show RUN` lists settings"));
        };
        conditions.push((stage, setting, value));
    }
    let holds = |run: &RunRecord, (stage, setting, value): &(&str, &str, &str)| {
        let identity = run.stage(stage).and_then(|stage| stage.identity.as_ref());
        identity.is_some_and(|identity| {
            flat_settings::flatten(&identity.settings)
                .get(*setting)
                .is_some_and(|found| flat_settings::text(found) == *value)
        })
    };
    let passes = |run: &&RunRecord| {
        pipeline.is_none_or(|pipeline| run.pipeline == pipeline)
            && arguments.outcome.as_ref().is_none_or(|outcome| run.outcome.name() == outcome)
            && (!arguments.labelled || labels.reason_to_keep(&run.run).is_some())
            && conditions.iter().all(|condition| holds(run, condition))
    };
    Ok(log.readable().filter(passes).collect())
}

/// Runs to list: each of `runs`, or only the latest of those that repeat each other, with their number. A run with a
/// label is always listed.
fn list_runs<'l>(runs: &[&'l RunRecord], labels: &Labels, all: bool) -> Vec<ListedRun<'l>> {
    let mut listed: Vec<ListedRun<'l>> = Vec::new();
    let mut places: HashMap<Vec<(&str, &str)>, usize> = HashMap::new();
    for run in runs {
        let mut results: Vec<(&str, &str)> =
            run.stages.iter().map(|stage| (stage.name.as_str(), stage.key.as_str())).collect();
        results.push(("", &run.pipeline));
        results.push(("outcome", run.outcome.name()));
        match places.get(&results) {
            Some(&place) if !all && labels.reason_to_keep(&run.run).is_none() => listed[place].repeats += 1,
            _ => {
                places.insert(results, listed.len());
                listed.push(ListedRun { run, repeats: 0, differences: None });
            }
        }
    }
    listed
}

/// Compares each listed run with the different run of the same pipeline before it.
fn add_differences(log: &RunLog, listed: &mut [ListedRun<'_>]) {
    for listed in listed {
        let run = listed.run;
        let mut earlier = log.readable().filter(|other| other.run < run.run && other.pipeline == run.pipeline);
        let before = earlier.find(|other| !run.is_repeat_of(other));
        listed.differences = before.map(|before| compare_runs(before, run));
    }
}

fn table_row(listed: &ListedRun<'_>, labels: &Labels) -> Vec<String> {
    let run = listed.run;
    let mut outcome = run.outcome.name().to_owned();
    let held = run.expectations.iter().filter(|expectation| expectation.held).count();
    if held < run.expectations.len() {
        outcome.push_str(&format!(", {held} of {} expectations held", run.expectations.len()));
    }
    let score = run.best_score();
    let differences = match &listed.differences {
        None => String::new(),
        Some(differences) => {
            let mut shown = TruncatedList::new(SHOWN_DIFFERENCES);
            shown.extend(differences.iter().filter(|difference| !difference.is_detail).map(difference_text));
            shown.join("; ")
        }
    };
    let mut marks: Vec<String> = labels.tags_of(&run.run).map(str::to_owned).collect();
    marks.extend(labels.pinned_runs.contains(&run.run).then(|| "pinned".to_owned()));
    marks.extend(labels.notes.get(&run.run).map(|note| format!("“{}”", note.lines().next().unwrap_or_default())));
    let repeated = if listed.repeats > 0 { format!(" (+{})", listed.repeats) } else { String::new() };
    [
        format!("{}{repeated}", run.run),
        run.pipeline.clone(),
        format_age(run.started),
        outcome,
        run.seconds().map(format_duration).unwrap_or_default(),
        score.map(|score| format_score(score.value)).unwrap_or_default(),
        score.map(|score| format!("{} {}", score.stage, score.of)).unwrap_or_default(),
        marks.join(", "),
        differences,
    ]
    .map(|cell| one_line(&cell))
    .to_vec()
}

/// Difference on one line: `fit.epochs 30 → 3`.
pub(super) fn difference_text(difference: &RunDifference) -> String {
    let RunDifference { subject, before, after, .. } = difference;
    match (before, after) {
        (Some(before), Some(after)) => format!("{subject} {before} → {after}"),
        (None, Some(after)) => format!("{subject} {after} (new)"),
        (Some(before), None) => format!("{subject} {before} (gone)"),
        (None, None) => subject.clone(),
    }
}

fn run_json(listed: &ListedRun<'_>, labels: &Labels) -> serde_json::Value {
    let run = listed.run;
    let differences = listed.differences.iter().flatten();
    let mut object = json!(run);
    if let Some(members) = object.as_object_mut() {
        members.insert("repeats".to_owned(), json!(listed.repeats));
        members.insert("command_line".to_owned(), json!(run.command_line()));
        members.insert("tags".to_owned(), json!(labels.tags_of(&run.run).collect::<Vec<_>>()));
        members.insert("note".to_owned(), json!(labels.notes.get(&run.run)));
        members.insert("pinned".to_owned(), json!(labels.pinned_runs.contains(&run.run)));
        members.insert(
            "differences".to_owned(),
            differences
                .map(|of| json!({ "subject": of.subject, "before": of.before, "after": of.after }))
                .collect::<Vec<_>>()
                .into(),
        );
    }
    object
}
