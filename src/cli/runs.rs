//! `pairloom runs`: list of runs, with what differs between them. `--where fit.loss=max` filters them by a setting.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::json;

use super::args::{CommonArgs, RunsArgs};
use super::console::{Console, align_columns, one_line};
use super::open;
use super::run_texts::{difference_text, run_time, score_text};
use super::units::{format_age, format_items};
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_base::suggest::closest_name;
use pairloom_store::comparison::{RunDifference, compare_runs, flatten, is_value};
use pairloom_store::labels::Labels;
use pairloom_store::record::{RunLog, RunRecord};

/// Differences shown for a run.
const SHOWN_DIFFERENCES: usize = 4;

/// Run in the list.
struct ListedRun<'l> {
    run: &'l RunRecord,
    /// Number of later runs that repeated it.
    repeats: usize,
    /// Differences from the different finished run of the same pipeline before it; `None` if it is the first.
    differences: Option<Vec<RunDifference>>,
    /// Name of that run.
    compared_with: Option<&'l str>,
}

/// Lists the runs of a store, latest first, with a warning for each record that cannot be read.
///
/// # Errors
/// The store cannot be read, or a filter is wrong.
pub(super) fn runs(common: &CommonArgs, arguments: &RunsArgs, console: Console) -> Result<()> {
    let log = open::open_log(&open::open_existing_store(common)?, console)?;
    log.read_all()?;
    let labels = Labels::read(log.store())?;
    let selected = select_runs(&log, &labels, arguments, console)?;
    let pipelines = log.pipeline_names()?;
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
    let title = ["run", "pipeline", "started", "outcome", "time", "best score", "of", "labels", "what differs"];
    let mut rows = vec![title.map(str::to_owned).to_vec()];
    rows.extend(listed.iter().map(|listed| table_row(listed, &labels, &pipelines)));
    console.print(&align_columns(&rows, &[false, false, false, false, true, true, false, false, false]))?;
    if found > listed.len() {
        let (count, verb) = items_are(found - listed.len(), "earlier runs");
        console.info(&format!("{count} {verb} not shown: `--limit {found}` shows all\n"));
    }
    if hidden > 0 {
        let (count, verb) = items_are(hidden, "runs");
        console.info(&format!("{count} that repeated a listed one {verb} not shown: `--all` shows all\n"));
    }
    Ok(())
}

/// Number of things, and the verb that follows: `1 run` `is`, `2 runs` `are`.
fn items_are(number: usize, plural: &str) -> (String, &'static str) {
    (format_items(number, plural), if number == 1 { "is" } else { "are" })
}

/// Runs that pass the filters, latest first.
fn select_runs<'l>(
    log: &'l RunLog,
    labels: &Labels,
    arguments: &RunsArgs,
    console: Console,
) -> Result<Vec<&'l RunRecord>> {
    let pipeline = match &arguments.pipeline {
        Some(name) => Some(log.pipeline(name)?.ok_or_else(|| log.unknown_pipeline(name))?),
        None => None,
    };
    let is_of_pipeline = |run: &&RunRecord| pipeline.is_none_or(|pipeline| run.pipeline_identity() == pipeline);
    let runs: Vec<&RunRecord> = log.readable().filter(is_of_pipeline).collect();
    let filters = SettingFilter::parse_all(&arguments.settings, &runs)?;
    let unknown = runs.iter().filter(|run| filters.iter().any(|filter| filter.is_unknown(run))).count();
    if unknown > 0 {
        let (count, verb) = items_are(unknown, "runs");
        console.info(&format!(
            "{count} {verb} left out: the records of older versions have no settings, and the results were removed\n"
        ));
    }
    let passes = |run: &&RunRecord| {
        arguments.outcome.as_ref().is_none_or(|outcome| run.outcome.name() == outcome)
            && (!arguments.labelled || labels.reason_to_keep(&run.run).is_some())
            && filters.iter().all(|filter| filter.holds(run))
    };
    Ok(runs.into_iter().filter(passes).collect())
}

/// Runs to list: each of `runs`, or only the latest of those that repeat each other, with their number. A run with a
/// label is always listed.
fn list_runs<'l>(runs: &[&'l RunRecord], labels: &Labels, all: bool) -> Vec<ListedRun<'l>> {
    let mut listed: Vec<ListedRun<'l>> = Vec::new();
    let mut places: HashMap<Vec<(&str, &str)>, usize> = HashMap::new();
    for run in runs {
        let mut results: Vec<(&str, &str)> =
            run.stages.iter().map(|stage| (stage.name.as_str(), stage.key.as_str())).collect();
        results.push(("", run.pipeline_identity()));
        results.push(("outcome", run.outcome.name()));
        match places.get(&results) {
            Some(&place) if !all && labels.reason_to_keep(&run.run).is_none() => listed[place].repeats += 1,
            _ => {
                places.insert(results, listed.len());
                listed.push(ListedRun { run, repeats: 0, differences: None, compared_with: None });
            }
        }
    }
    listed
}

/// Compares each listed run with the different finished run of the same pipeline before it.
fn add_differences<'l>(log: &'l RunLog, listed: &mut [ListedRun<'l>]) {
    for listed in listed {
        let before = log.before(listed.run);
        listed.differences = before.map(|before| compare_runs(before, listed.run));
        listed.compared_with = before.map(|before| before.run.as_str());
    }
}

fn table_row(listed: &ListedRun<'_>, labels: &Labels, pipelines: &BTreeMap<&str, &str>) -> Vec<String> {
    let run = listed.run;
    let mut outcome = run.outcome.name().to_owned();
    let held = run.expectations.iter().filter(|expectation| expectation.held).count();
    if held < run.expectations.len() {
        outcome.push_str(&format!(", {held} of {} held", format_items(run.expectations.len(), "expectations")));
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
        (*pipelines.get(run.pipeline_identity()).unwrap_or(&run.pipeline.as_str())).to_owned(),
        format_age(run.started),
        outcome,
        run_time(run),
        score.map(score_text).unwrap_or_default(),
        score.map(|score| format!("{} {}", score.stage, score.of)).unwrap_or_default(),
        marks.join(", "),
        differences,
    ]
    .map(|cell| one_line(&cell))
    .to_vec()
}

fn run_json(listed: &ListedRun<'_>, labels: &Labels) -> serde_json::Value {
    let run = listed.run;
    let differences = listed.differences.iter().flatten();
    let mut object = json!(run);
    if let Some(members) = object.as_object_mut() {
        members.insert("repeats".to_owned(), json!(listed.repeats));
        members.insert("compared_with".to_owned(), json!(listed.compared_with));
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

/// Condition on a setting of a stage.
#[derive(Debug)]
struct SettingFilter<'t> {
    stage: &'t str,
    setting: &'t str,
    value: &'t str,
}

impl<'t> SettingFilter<'t> {
    /// Conditions of the form `STAGE.SETTING=VALUE` on `runs`.
    ///
    /// # Errors
    /// A condition has another form, or no run has such a setting.
    fn parse_all(texts: &'t [String], runs: &[&RunRecord]) -> Result<Vec<Self>> {
        texts.iter().map(|text| Self::parse(text, runs)).collect()
    }

    fn parse(text: &'t str, runs: &[&RunRecord]) -> Result<Self> {
        let parts = text.split_once('=').and_then(|(name, value)| Some((name.trim().split_once('.')?, value.trim())));
        let Some(((stage, setting), value)) = parts else {
            return Err(Error::usage(format!("`--where {text}`: expected `STAGE.SETTING=VALUE`"))
                .hint("for example `--where fit.loss=max`; `pairloom show RUN STAGE` lists settings"));
        };
        let filter = Self { stage, setting, value };
        // Runs without settings may have had it.
        let is_known = runs.iter().any(|run| filter.is_unknown(run) || filter.found(run, |_| true));
        if is_known || runs.is_empty() { Ok(filter) } else { Err(filter.unknown_setting(text, runs)) }
    }

    /// True if the run has this value of the setting.
    fn holds(&self, run: &RunRecord) -> bool {
        self.found(run, |value| is_value(value, self.value))
    }

    /// True if the run has the stage, but its settings are not recorded.
    fn is_unknown(&self, run: &RunRecord) -> bool {
        run.stage(self.stage).is_some_and(|stage| stage.identity.is_none())
    }

    fn found(&self, run: &RunRecord, is_wanted: impl Fn(&serde_json::Value) -> bool) -> bool {
        let identity = run.stage(self.stage).and_then(|stage| stage.identity.as_ref());
        identity.is_some_and(|identity| flatten(&identity.settings).get(self.setting).is_some_and(is_wanted))
    }

    fn unknown_setting(&self, text: &str, runs: &[&RunRecord]) -> Error {
        let Self { stage, setting, .. } = self;
        let stages = || runs.iter().flat_map(|run| &run.stages);
        if !stages().any(|of| of.name == *stage) {
            let error = Error::usage(format!("`--where {text}`: no run has a stage `{stage}`"));
            let names: BTreeSet<&str> = stages().map(|stage| stage.name.as_str()).collect();
            return match closest_name(stage, names) {
                Some(close) => error.hint(format!("did you mean `{close}.{setting}`?")),
                None => error.hint("`pairloom show RUN` lists the stages of a run"),
            };
        }
        let identities = stages().filter(|of| of.name == *stage).filter_map(|of| of.identity.as_ref());
        let settings: BTreeSet<String> = identities.flat_map(|of| flatten(&of.settings).into_keys()).collect();
        let error = Error::usage(format!("`--where {text}`: no run has a setting `{setting}` of the stage `{stage}`"));
        match closest_name(setting, settings.iter().map(String::as_str)) {
            Some(close) => error.hint(format!("did you mean `{stage}.{close}`?")),
            None => error.hint(format!("`pairloom show RUN {stage}` lists the settings of this stage")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use pairloom_store::Store;
    use pairloom_store::testing::{finished_run, stage};

    #[test]
    fn a_filter_compares_numbers_and_refuses_unknown_settings() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let settings = json!({ "learning_rate": 0.001, "loss": { "max": { "margin": 0.2 } } });
        let run = finished_run(&store, "20260101T000000.000Z-0001", "p.toml", &[stage("fit", "train", settings, &[])]);
        let holds = |text: &str| {
            let texts = [text.to_owned()];
            let filters = SettingFilter::parse_all(&texts, &[&run])?;
            Ok::<bool, Error>(filters.iter().all(|filter| filter.holds(&run)))
        };
        assert!(holds("fit.learning_rate=1e-3").unwrap() && holds("fit.loss=max").unwrap());
        assert!(holds("fit.loss.margin = 0.20").unwrap() && !holds("fit.loss=sum").unwrap());
        let hint = |text: &str| holds(text).unwrap_err().hint_text().unwrap().to_owned();
        assert_eq!(hint("fit.learningrate=1e-3"), "did you mean `fit.learning_rate`?");
        assert_eq!(hint("fitt.loss=max"), "did you mean `fit.loss`?");
        assert_eq!(hint("fit.seed=3"), "`pairloom show RUN fit` lists the settings of this stage");
        assert!(hint("loss").contains("--where fit.loss=max"));
    }
}
