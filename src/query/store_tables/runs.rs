//! Tables of the records of runs.

use std::collections::{BTreeMap, HashMap};

use super::columns::{NamedColumns, bool_array, float_array, int_array, text_array, timestamp_array};
use crate::catalog::StoreCatalog;
use pairloom_base::error::Result;
use pairloom_store::flat_settings;
use pairloom_store::key::Key;
use pairloom_store::labels::Labels;
use pairloom_store::record::{RunOutcome, RunRecord, ScoreRecord, StageRecord};
use pairloom_store::run_log::RunLog;

/// Readable records of all runs, latest first.
pub(super) fn records(catalog: &StoreCatalog) -> Result<Vec<&RunRecord>> {
    let Some(log) = catalog.log() else { return Ok(vec![]) };
    log.read_all()?;
    Ok(log.readable().collect())
}

/// Stage of the latest run that uses an artefact, by kind and key of the artefact.
pub(super) fn latest_uses(catalog: &StoreCatalog) -> Result<HashMap<(&str, &str), &StageRecord>> {
    catalog.log().map_or_else(|| Ok(HashMap::new()), RunLog::latest_uses)
}

/// Names of the pipelines of runs, for a column.
fn pipeline_of(catalog: &StoreCatalog) -> Result<impl Fn(&&RunRecord) -> Option<String>> {
    let names = catalog.log().map(RunLog::pipeline_names).transpose()?.unwrap_or_default();
    Ok(move |run: &&RunRecord| names.get(run.pipeline_identity()).map(|name| (*name).to_owned()))
}

/// Stages of all runs, with their runs.
fn run_stages(catalog: &StoreCatalog) -> Result<Vec<(&RunRecord, &StageRecord)>> {
    let runs = records(catalog)?;
    Ok(runs.into_iter().flat_map(|run| run.stages.iter().map(move |stage| (run, stage))).collect())
}

/// One row per run.
pub(super) fn runs(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let runs = records(catalog)?;
    let labels = catalog.store().map(Labels::read).transpose()?.unwrap_or_default();
    let pipeline = pipeline_of(catalog)?;
    let repeats = repeats(&runs);
    let best: Vec<Option<&ScoreRecord>> = runs.iter().map(|run| run.best_score()).collect();
    let tags = |run: &RunRecord| labels.tags_of(&run.run).collect::<Vec<_>>().join(", ");
    let words = |words: String| (!words.is_empty()).then_some(words);
    Ok(vec![
        ("run", text_array(runs.iter().map(|run| Some(&run.run)))),
        ("pipeline", text_array(runs.iter().map(pipeline))),
        ("file", text_array(runs.iter().map(|run| run.command.file.as_ref()))),
        ("started", timestamp_array(runs.iter().map(|run| Some(run.started)))),
        ("finished", timestamp_array(runs.iter().map(|run| run.finished))),
        ("seconds", float_array(runs.iter().map(|run| run.seconds()))),
        ("outcome", text_array(runs.iter().map(|run| Some(run.outcome.name())))),
        ("error", text_array(runs.iter().map(|run| run.error.as_ref()))),
        ("repeat_of", text_array(repeats.into_iter())),
        ("seed", int_array(runs.iter().map(|run| run.command.seed))),
        ("overrides", text_array(runs.iter().map(|run| words(run.command.overrides.join(" "))))),
        ("command", text_array(runs.iter().map(|run| Some(run.command_line())))),
        ("device", text_array(runs.iter().map(|run| words(run.command.device.clone())))),
        ("threads", int_array(runs.iter().map(|run| u64::try_from(run.command.threads).ok().filter(|n| *n > 0)))),
        ("pairloom", text_array(runs.iter().map(|run| words(run.pairloom.clone())))),
        ("tags", text_array(runs.iter().map(|run| words(tags(run))))),
        ("note", text_array(runs.iter().map(|run| labels.notes.get(&run.run)))),
        ("pinned", bool_array(runs.iter().map(|run| labels.pinned_runs.contains(&run.run)))),
        ("metric", text_array(best.iter().map(|score| score.map(|score| &score.metric)))),
        ("score", float_array(best.iter().map(|score| score.map(|score| score.value)))),
        ("score_stage", text_array(best.iter().map(|score| score.map(|score| &score.stage)))),
        ("score_of", text_array(best.iter().map(|score| score.map(|score| &score.of)))),
    ])
}

/// For each run, ordered from the latest to the first, the first finished run of the same pipeline with the same results;
/// `None` if it is that run itself, or did not finish.
fn repeats<'r>(runs: &[&'r RunRecord]) -> Vec<Option<&'r str>> {
    type Results<'r> = (&'r str, BTreeMap<&'r str, &'r Key>);
    let results = |run: &'r RunRecord| -> Results<'r> {
        (run.pipeline_identity(), run.stages.iter().map(|stage| (stage.name.as_str(), &stage.key)).collect())
    };
    let mut first: HashMap<Results<'r>, &'r str> = HashMap::new();
    let mut repeats: Vec<Option<&str>> = runs
        .iter()
        .rev()
        .map(|run| {
            if run.outcome != RunOutcome::Finished {
                return None;
            }
            let name = *first.entry(results(run)).or_insert(&run.run);
            (name != run.run).then_some(name)
        })
        .collect();
    repeats.reverse();
    repeats
}

/// One row per stage of a run.
pub(super) fn stages(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let rows = run_stages(catalog)?;
    let pipeline = pipeline_of(catalog)?;
    let identity = |stage: &&StageRecord| stage.identity.clone();
    let stalls: Vec<_> = rows.iter().map(|(_, stage)| stage.stalls).collect();
    Ok(vec![
        ("run", text_array(rows.iter().map(|(run, _)| Some(&run.run)))),
        ("pipeline", text_array(rows.iter().map(|(run, _)| pipeline(run)))),
        ("stage", text_array(rows.iter().map(|(_, stage)| Some(&stage.name)))),
        ("kind", text_array(rows.iter().map(|(_, stage)| Some(&stage.kind)))),
        ("key", text_array(rows.iter().map(|(_, stage)| Some(stage.key.as_str())))),
        ("version", int_array(rows.iter().map(|(_, stage)| identity(stage).map(|it| u64::from(it.version))))),
        ("settings", text_array(rows.iter().map(|(_, stage)| identity(stage).map(|it| it.settings.to_string())))),
        ("reused", bool_array(rows.iter().map(|(_, stage)| stage.reused))),
        ("seconds", float_array(rows.iter().map(|(_, stage)| stage.seconds))),
        ("waited_for_storage", float_array(stalls.iter().map(|stalls| stalls.map(|of| of.storage)))),
        ("waited_for_decode", float_array(stalls.iter().map(|stalls| stalls.map(|of| of.decode)))),
        ("trained", float_array(stalls.iter().map(|stalls| stalls.map(|of| of.trainer)))),
    ])
}

/// One row per setting of a stage of a run.
pub(super) fn settings(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let mut rows = Vec::new();
    for (run, stage) in run_stages(catalog)? {
        let settings = stage.identity.as_ref().map(|identity| flat_settings::flatten(&identity.settings));
        rows.extend(settings.unwrap_or_default().into_iter().map(|(name, value)| (run, stage, name, value)));
    }
    let pipeline = pipeline_of(catalog)?;
    Ok(vec![
        ("run", text_array(rows.iter().map(|row| Some(&row.0.run)))),
        ("pipeline", text_array(rows.iter().map(|row| pipeline(&row.0)))),
        ("stage", text_array(rows.iter().map(|row| Some(&row.1.name)))),
        ("kind", text_array(rows.iter().map(|row| Some(&row.1.kind)))),
        ("setting", text_array(rows.iter().map(|row| Some(&row.2)))),
        ("value", text_array(rows.iter().map(|row| Some(flat_settings::text(&row.3))))),
        ("number", float_array(rows.iter().map(|row| row.3.as_f64()))),
    ])
}

/// One row per expectation of a run.
pub(super) fn expectations(catalog: &StoreCatalog) -> Result<NamedColumns> {
    let rows: Vec<_> = records(catalog)?
        .into_iter()
        .flat_map(|run| run.expectations.iter().map(move |expected| (run, expected)))
        .collect();
    let pipeline = pipeline_of(catalog)?;
    Ok(vec![
        ("run", text_array(rows.iter().map(|(run, _)| Some(&run.run)))),
        ("pipeline", text_array(rows.iter().map(|(run, _)| pipeline(run)))),
        ("sql", text_array(rows.iter().map(|(_, expected)| Some(&expected.sql)))),
        ("value", float_array(rows.iter().map(|(_, expected)| expected.value))),
        ("wanted", text_array(rows.iter().map(|(_, expected)| Some(&expected.wanted)))),
        ("held", bool_array(rows.iter().map(|(_, expected)| expected.held))),
    ])
}
