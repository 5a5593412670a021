//! Error for a table that a session does not have: the nearest names, or the run that has the table.

use std::collections::BTreeSet;

use datafusion::common::TableReference;

use crate::catalog::{ALL_RUNS_SCHEMA, STORE_SCHEMA, StoreCatalog};
use crate::names::{ListedTable, unknown_table_error};
use crate::store_tables;
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_stage::stage_of_instance;
use pairloom_store::record::{RunOutcome, RunRecord, StageRecord};
use pairloom_store::run_log::RunLog;
use pairloom_tables as tables;

/// Values of an axis that a hint lists.
const SHOWN_VALUES: usize = 8;

/// Number of recent runs that are searched for the table.
const SEARCHED_RUNS: usize = 200;

/// Error for an unknown table.
///
/// # Errors
/// The store cannot be read.
pub(super) fn error(catalog: &StoreCatalog, reference: &TableReference) -> Result<Error> {
    let name = &reference.to_string();
    if let TableReference::Bare { table } = reference
        && let Some((schema, of_schema)) = table.split_once('.')
        && is_table(catalog, schema, of_schema)?
    {
        let error = Error::usage(format!("SQL: `{table}` in quotes is the name of a table without a stage"));
        return Ok(error.hint(format!("write `{schema}.{of_schema}` without quotes, or quote the two names apart")));
    }
    if catalog.log().is_none() && matches!(reference.schema(), Some(ALL_RUNS_SCHEMA)) {
        return Ok(Error::usage(format!("SQL: there is no table `{name}` here"))
            .hint("an expectation sees the tables of its own run"));
    }
    if catalog.run().is_none()
        && let Some(log) = catalog.log()
        && let Some(stage) = reference.schema()
        && log.last_finished(None)?.is_none()
        && log.readable().any(|run| run.stage(stage).is_some() || run.instances(stage).next().is_some())
    {
        return Ok(log.none_finished(None).context(format!("SQL: there is no table `{name}`")));
    }
    if let Some(hint) = catalog.run().and_then(|run| instances_hint(run, reference)) {
        return Ok(Error::usage(format!("SQL: there is no table `{name}`")).hint(hint));
    }
    if let Some(hint) = catalog.log().and_then(|log| other_run(log, catalog.run(), reference)) {
        let of_run = catalog.run().map(|run| format!(" in the run `{}` of `{}`", run.run, run.pipeline));
        let message = format!("SQL: there is no table `{name}`{}", of_run.unwrap_or_default());
        return Ok(Error::usage(message).hint(hint));
    }
    let listed = catalog.tables()?;
    let is_empty = listed.is_empty() && catalog.store().is_some();
    let store_tables = store_tables::names().map(ListedTable::of_store);
    let of_all_runs =
        |table: &str| ListedTable { schema: ALL_RUNS_SCHEMA.to_owned(), table: table.to_owned(), rows: None };
    let all_runs: Vec<ListedTable> = tables::all().iter().map(|table| of_all_runs(table.name)).collect();
    // Another name without a schema means a table of the run.
    let is_meant = !is_empty && name.contains('.') || name.eq_ignore_ascii_case(ALL_RUNS_SCHEMA);
    let all_runs = all_runs.into_iter().filter(|_| is_meant);
    let error = unknown_table_error(name, listed.into_iter().chain(store_tables).chain(all_runs));
    Ok(match error.hint_text() {
        None if is_empty => error.hint("no run has finished a stage in this store"),
        _ => error,
    })
}

/// Hint with the values of the axes, for the name of an instance that a run does not have.
fn instances_hint(run: &RunRecord, reference: &TableReference) -> Option<String> {
    let (stage, table) = (reference.schema()?, reference.table());
    let base = stage_of_instance(stage);
    let instances: Vec<&StageRecord> = run.instances(base).collect();
    let first = instances.first().filter(|_| base != stage && run.instances(stage).next().is_none())?;
    let values_of = |axis: usize| {
        let mut values = TruncatedList::new(SHOWN_VALUES);
        let mut seen = BTreeSet::new();
        let texts = instances.iter().map(|instance| instance.coordinates[axis].value_text());
        values.extend(texts.filter(|text| seen.insert(text.clone())));
        format!("{} ({})", first.coordinates[axis].axis, values.join(", "))
    };
    let axes: Vec<String> = (0..first.coordinates.len()).map(values_of).collect();
    Some(format!("`{base}` is repeated over {}; one instance is `\"{}\".{table}`", axes.join(" and "), first.name))
}

/// Returns true if there is a table of this name in a stage of the run, or in a schema.
fn is_table(catalog: &StoreCatalog, schema: &str, table: &str) -> Result<bool> {
    Ok(match schema {
        ALL_RUNS_SCHEMA => tables::all().iter().any(|known| known.name == table),
        STORE_SCHEMA => store_tables::names().any(|known| known == table),
        _ => catalog.table(schema, table)?.is_some(),
    })
}

/// Hint that names another run with a table of this name.
fn other_run(log: &RunLog, this: Option<&RunRecord>, reference: &TableReference) -> Option<String> {
    let (stage, table) = (reference.schema()?, reference.table());
    let has = |run: &&RunRecord| {
        let known = run.stages.iter().find(|known| known.name.eq_ignore_ascii_case(stage));
        let known = known.or_else(|| run.stage(stage)).or_else(|| run.instances(stage).next());
        Some(run.run.as_str()) != this.map(|run| run.run.as_str())
            && known.is_some_and(|stage| stage.tables.iter().any(|known| known == table))
    };
    let runs: Vec<&RunRecord> = log.readable().take(SEARCHED_RUNS).filter(has).collect();
    let is_finished = |run: &&&RunRecord| run.outcome == RunOutcome::Finished;
    let Some(run) = runs.iter().find(is_finished) else {
        let run = runs.first()?;
        let (name, outcome, short) = (&run.run, run.outcome.name(), run.short_name());
        return Some(format!("the {outcome} run `{name}` may have it: `--run {short}`"));
    };
    Some(if this.is_some_and(|this| this.pipeline_identity() == run.pipeline_identity()) {
        format!("the run `{}` has it: `--run {}`", run.run, run.short_name())
    } else {
        format!("the pipeline `{0}` has it: `--pipeline {0}`, or all runs: `{ALL_RUNS_SCHEMA}.{table}`", run.pipeline)
    })
}
