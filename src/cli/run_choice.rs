//! Choice of the run that a command is about, and of a result by its stage or key.

use super::args::RunChoiceArgs;
use crate::error::{Error, Result};
use crate::store::key::Key;
use crate::store::record::{RunRecord, StageRecord};
use crate::store::run_log::RunLog;

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

/// As [`choose_run`], with an error if no run has finished.
///
/// # Errors
/// As [`choose_run`].
pub(super) fn require_run<'l>(log: &'l RunLog, choice: &RunChoiceArgs) -> Result<&'l RunRecord> {
    choose_run(log, choice)?.ok_or_else(|| {
        Error::data("no run of this store has finished").hint("`pairloom runs` lists all runs; name one with `--run`")
    })
}

/// Run, stage or artefact that `target` names. Stages are those of the chosen run; without a target, it is the chosen
/// run itself. Keys are those of the latest run that has such a key.
///
/// # Errors
/// Nothing has that name, or the store cannot be read.
pub(super) fn find_target<'l>(
    log: &'l RunLog,
    target: Option<&str>,
    choice: &RunChoiceArgs,
) -> Result<ResultTarget<'l>> {
    let Some(name) = target else { return require_run(log, choice).map(ResultTarget::Run) };
    let is_choice = choice.run.is_some() || choice.pipeline.is_some();
    let not_a_run = match log.find(name) {
        Ok(run) if !is_choice => return Ok(ResultTarget::Run(run)),
        Ok(_) => None,
        Err(error) => Some(error),
    };
    if let Some(run) = choose_run(log, choice)?
        && let Some(stage) = run.stage(name)
    {
        return Ok(ResultTarget::Stage(run, stage));
    }
    if let Some(found) = find_key(log, name)? {
        return Ok(found);
    }
    let error = Error::usage(format!("no run, stage or key is called `{name}`"));
    Err(match not_a_run {
        // An ambiguous name of a run has an error that says more.
        Some(ambiguous) if ambiguous.to_string().contains("names several") => ambiguous,
        _ => error.hint("`pairloom runs` lists the runs, `pairloom show RUN` the stages and keys of a run"),
    })
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
