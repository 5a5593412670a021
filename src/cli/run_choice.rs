//! Choice of the run that a command is about, and of a result by its stage or key.

use super::args::RunChoiceArgs;
use super::console::Console;
use super::units::format_items;
use pairloom_base::error::{Error, Result, TruncatedList, escape_line};
use pairloom_base::suggest::closest_name;
use pairloom_store::key::Key;
use pairloom_store::record::{RunLog, RunRecord, StageRecord};
use pairloom_store::run_names::NameMeaning;

/// Least number of digits of a key that name an artefact.
const MIN_KEY_DIGITS: usize = 6;

/// Run or result that a person names.
pub(super) enum ResultTarget<'l> {
    /// A run.
    Run(&'l RunRecord),
    /// A stage of a run.
    Stage(&'l RunRecord, &'l StageRecord),
}

/// Run that `--run` or `--pipeline` chooses, otherwise the last finished run; `None` if no run has finished.
///
/// # Errors
/// There is no such run, or the store cannot be read.
pub(super) fn choose_run<'l>(log: &'l RunLog, choice: &RunChoiceArgs) -> Result<Option<&'l RunRecord>> {
    match &choice.run {
        Some(name) => log.find(name).map(Some),
        None => log.last_finished(choice.pipeline.as_deref()),
    }
}

/// As [`choose_run`], for queries: `None` too if no run is named and the last one is not known, since a record cannot be
/// read. A query of its tables is an error then.
///
/// # Errors
/// As [`choose_run`], for a run that is named.
pub fn choose_run_for_queries<'l>(log: &'l RunLog, choice: &RunChoiceArgs) -> Result<Option<&'l RunRecord>> {
    let run = choose_run(log, choice);
    if is_named(choice) { run } else { Ok(run.ok().flatten()) }
}

/// As [`choose_run`], with an error if no run has finished.
pub(super) fn require_run<'l>(log: &'l RunLog, choice: &RunChoiceArgs) -> Result<&'l RunRecord> {
    choose_run(log, choice)?.ok_or_else(|| log.none_finished(None))
}

/// True if the command line names the run.
pub(super) fn is_named(choice: &RunChoiceArgs) -> bool {
    choice.run.is_some() || choice.pipeline.is_some()
}

/// Names the run of an answer on stderr, if the command line does not name it. With `--json` nobody reads it.
pub fn announce_run(run: &RunRecord, choice: &RunChoiceArgs, console: Console) {
    if !is_named(choice) && !console.json {
        console.note(&format!("run {} of {}", run.run, run.pipeline));
    }
}

/// Stage of a run, by its name.
///
/// # Errors
/// The run has no such stage.
pub(super) fn require_stage<'l>(run: &'l RunRecord, name: &str) -> Result<&'l StageRecord> {
    run.stage(name).ok_or_else(|| {
        if let Some(several) = several_instances(run, name) {
            return several;
        }
        let names = || run.stages.iter().map(|stage| stage.name.as_str());
        let error = Error::usage(format!("the run `{}` of `{}` has no stage `{name}`", run.run, run.pipeline));
        match closest_name(name, names()) {
            Some(close) => error.hint(format!("did you mean `{close}`?")),
            None => error.hint(format!("its stages are {}", TruncatedList::from_iter(names()).join(", "))),
        }
    })
}

/// Run, stage or artefact that `target` names. Stages are those of the chosen run; without a target, it is the chosen
/// run itself. Keys are those of the latest run that has such a key.
///
/// # Errors
/// Nothing has that name, several things have it, or the store cannot be read.
pub(super) fn find_target<'l>(
    log: &'l RunLog,
    target: Option<&str>,
    choice: &RunChoiceArgs,
) -> Result<ResultTarget<'l>> {
    let Some(name) = target else { return require_run(log, choice).map(ResultTarget::Run) };
    if is_named(choice) {
        let run = require_run(log, choice)?;
        return match (run.stage(name), find_key(log, name)?) {
            (Some(stage), _) => Ok(ResultTarget::Stage(run, stage)),
            (None, Some(found)) => Ok(found),
            (None, None) => require_stage(run, name).map(|stage| ResultTarget::Stage(run, stage)),
        };
    }
    // Runs and keys can be named in a store whose last run is not known.
    let latest = log.last_finished(None);
    let in_latest = latest.as_ref().ok().copied().flatten().and_then(|run| Some((run, run.stage(name)?)));
    let mut meanings = log.meanings(name)?;
    let elsewhere = meanings.iter().position(|of| matches!(of, NameMeaning::Stage(..))).map(|i| meanings.remove(i));
    let runs = meanings.len();
    meanings.extend(in_latest.map(|(run, _)| NameMeaning::Stage(run.run.clone(), run.pipeline.clone())));
    if meanings.len() > 1 {
        let shown = TruncatedList::from_iter(&meanings).join(", ");
        return Err(Error::usage(format!("`{name}` means several things: {shown}"))
            .hint("name a run by its last four digits, and a stage after its run: `pairloom show RUN STAGE`"));
    }
    // `latest` and `NAME~1` are names of runs, but no meanings.
    let found = log.find(name);
    match (found, in_latest) {
        (Ok(run), _) => return Ok(ResultTarget::Run(run)),
        (Err(_), Some((run, stage))) => return Ok(ResultTarget::Stage(run, stage)),
        (Err(error), None) if runs > 0 || name == "latest" || name.contains('~') => return Err(error),
        (Err(_), None) => {}
    }
    if let Some(found) = find_key(log, name)? {
        return Ok(found);
    }
    if let Some(several) = latest?.and_then(|run| several_instances(run, name)) {
        return Err(several);
    }
    Err(match elsewhere {
        Some(meaning @ NameMeaning::Stage(..)) => {
            let error = Error::usage(format!("`{name}` is {meaning}, which is not the last finished run"));
            error.hint(format!("name the run as well: `pairloom show RUN {name}`"))
        }
        _ => Error::usage(format!("no run, stage or key is called `{}`", escape_line(name)))
            .hint("`pairloom runs` lists the runs, `pairloom show RUN` the stages and keys of a run"),
    })
}

/// Error for a name of several instances of a stage; `None` if it names none.
fn several_instances(run: &RunRecord, name: &str) -> Option<Error> {
    let instances: Vec<&str> = run.instances(name).map(|stage| stage.name.as_str()).collect();
    let first = instances.first()?;
    let message = format!("`{name}` has {} in the run `{}`", format_items(instances.len(), "instances"), run.run);
    let more = TruncatedList::from_iter(instances.iter().skip(1)).join(", ");
    Some(Error::usage(message).hint(format!("name one: `{first}`; the others are {more}")))
}

fn find_key<'l>(log: &'l RunLog, name: &str) -> Result<Option<ResultTarget<'l>>> {
    let digits = name.rsplit('/').next().unwrap_or(name);
    if digits.len() < MIN_KEY_DIGITS || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(None);
    }
    log.read_all()?;
    let mut found: Option<(&RunRecord, &StageRecord)> = None;
    for (run, stage) in log.readable().flat_map(|run| run.stages.iter().map(move |stage| (run, stage))) {
        if !stage.key.as_str().starts_with(digits) {
            continue;
        }
        match found {
            Some((_, other)) if other.key != stage.key => {
                let keys: [&Key; 2] = [&other.key, &stage.key];
                return Err(Error::usage(format!("`{name}` begins several keys: `{}`, `{}`", keys[0], keys[1]))
                    .hint("name more digits"));
            }
            Some(_) => {}
            None => found = Some((run, stage)),
        }
    }
    Ok(found.map(|(run, stage)| ResultTarget::Stage(run, stage)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use pairloom_store::testing::{finished_run, stage};
    use pairloom_store::{Store, labels};

    fn log() -> (tempfile::TempDir, RunLog) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let run = |name: &str, pipeline: &str, stages: &[&str], n: u32| {
            let stages: Vec<_> = stages.iter().map(|name| stage(name, "ingest", json!({ "n": n }), &[])).collect();
            finished_run(&store, name, pipeline, &stages).run
        };
        let first = run("20260101T000000.000Z-0001", "one.toml", &["pairs", "gone"], 1);
        run("20260102T000000.000Z-0002", "fit.toml", &["pairs", "fit"], 2);
        // A tag of an older version may be anything.
        labels::set_tag(&store, &first, "fit", false).unwrap();
        labels::set_tag(&store, &first, "paper", false).unwrap();
        (folder, RunLog::open(&store).unwrap())
    }

    fn target(log: &RunLog, name: &str, choice: &RunChoiceArgs) -> Result<String> {
        Ok(match find_target(log, Some(name), choice)? {
            ResultTarget::Run(run) => run.short_name().to_owned(),
            ResultTarget::Stage(run, stage) => format!("{} {}", run.short_name(), stage.name),
        })
    }

    #[test]
    fn a_name_of_several_things_is_refused() {
        let (_folder, log) = log();
        let in_latest = RunChoiceArgs::default();
        for (name, expected) in [("paper", "0001"), ("latest", "0002"), ("one", "0001"), ("pairs", "0002 pairs")] {
            assert_eq!(target(&log, name, &in_latest).unwrap(), expected);
        }
        let error = target(&log, "fit", &in_latest).unwrap_err().to_string();
        let expected = "`fit` means several things: the tag of the run `20260101T000000.000Z-0001`, the pipeline `fit.toml`, \
                      a stage of the run `20260102T000000.000Z-0002` of `fit.toml`";
        assert_eq!(error, expected);
        let run_two = RunChoiceArgs { run: Some("0002".to_owned()), pipeline: None };
        assert_eq!(target(&log, "fit", &run_two).unwrap(), "0002 fit");
    }

    #[test]
    fn a_stage_that_a_run_lacks_is_answered_with_a_hint() {
        let (_folder, log) = log();
        let error = target(&log, "gone", &RunChoiceArgs::default()).unwrap_err();
        assert!(error.to_string().contains("a stage of the run `20260101T000000.000Z-0001`"), "{error}");
        assert_eq!(error.hint_text(), Some("name the run as well: `pairloom show RUN gone`"));
        let error = require_stage(log.find("0001").unwrap(), "pair").unwrap_err();
        assert_eq!(error.hint_text(), Some("did you mean `pairs`?"));
        assert!(
            target(&log, "nothing", &RunChoiceArgs::default())
                .unwrap_err()
                .to_string()
                .contains("no run, stage or key")
        );
    }
}
