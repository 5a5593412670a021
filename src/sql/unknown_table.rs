//! Error for a table that a session does not have: the nearest names, or the run that has the table.

use crate::error::{Error, Result};
use crate::sql::catalog::{ALL_RUNS_SCHEMA, StoreCatalog};
use crate::sql::names::{ListedTable, unknown_table_error};
use crate::sql::store_tables;
use crate::store::record::RunRecord;
use crate::store::run_log::RunLog;

/// Number of recent runs that are searched for the table.
const SEARCHED_RUNS: usize = 200;

/// Error for an unknown table `name`.
///
/// # Errors
/// The store cannot be read.
pub(super) fn error(catalog: &StoreCatalog, name: &str) -> Result<Error> {
    if catalog.run().is_none()
        && let Some(log) = catalog.log()
        && let Some((stage, _)) = name.split_once('.')
        && log.last_finished(None)?.is_none()
        && log.readable().any(|run| run.stage(stage.trim_matches('"')).is_some())
    {
        return Ok(log.none_finished(None).context(format!("SQL: there is no table `{name}`")));
    }
    if let Some(hint) = catalog.log().and_then(|log| other_run(log, catalog.run(), name)) {
        let of_run = catalog.run().map(|run| format!(" in the run `{}` of `{}`", run.run, run.pipeline));
        let message = format!("SQL: there is no table `{name}`{}", of_run.unwrap_or_default());
        return Ok(Error::usage(message).hint(hint));
    }
    let tables = catalog.tables()?;
    let is_empty = tables.is_empty() && catalog.store().is_some();
    let store_tables = store_tables::names().map(ListedTable::of_store);
    let error = unknown_table_error(name, tables.into_iter().chain(store_tables));
    Ok(match error.hint_text() {
        None if is_empty => error.hint("no run has finished a stage in this store"),
        _ => error,
    })
}

/// Hint that names another run with a table of this name.
fn other_run(log: &RunLog, this: Option<&RunRecord>, name: &str) -> Option<String> {
    let (stage, table) = name.split_once('.')?;
    let has = |run: &&RunRecord| {
        let stage = run.stages.iter().find(|known| known.name.eq_ignore_ascii_case(stage.trim_matches('"')));
        Some(run.run.as_str()) != this.map(|run| run.run.as_str())
            && stage.is_some_and(|stage| stage.tables.iter().any(|known| known == table))
    };
    let run = log.readable().take(SEARCHED_RUNS).find(has)?;
    Some(if this.is_some_and(|this| this.pipeline_identity() == run.pipeline_identity()) {
        format!("the run `{}` has it: `--run {}`", run.run, run.short_name())
    } else {
        format!("the pipeline `{0}` has it: `--pipeline {0}`, or all runs: `{ALL_RUNS_SCHEMA}.{table}`", run.pipeline)
    })
}
