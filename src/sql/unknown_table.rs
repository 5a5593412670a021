//! Error for a table that a session does not have, with the names that were probably meant.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::sql::catalog::{ALL_RUNS_SCHEMA, STORE_SCHEMA, STORE_TABLES, StoreCatalog};
use crate::store::record::RunRecord;
use crate::store::run_log::RunLog;

/// Maximum number of tables that the error suggests.
const MAX_SUGGESTIONS: usize = 5;
/// Number of recent runs of other pipelines that are searched for the table.
const SEARCHED_RUNS: usize = 200;

/// Error for an unknown table `name`: suggests the closest names, or the pipeline that has the table.
///
/// # Errors
/// The store cannot be read.
pub(super) fn error(catalog: &StoreCatalog, name: &str) -> Result<Error> {
    let tables = catalog.stage_tables()?;
    let mut known: BTreeSet<String> = BTreeSet::new();
    for (stage, tables) in &tables {
        known.extend(tables.iter().map(|table| qualified(stage, table)));
    }
    let of_run = catalog.run().map(|run| format!(" in the run `{}` of `{}`", run.run, run.pipeline));
    let error = Error::usage(format!("SQL: there is no table `{name}`{}", of_run.unwrap_or_default()));
    if let Some(hint) = catalog.log().and_then(|log| other_run(log, catalog.run(), name)) {
        return Ok(error.hint(hint));
    }
    let near = nearest(name, &known);
    let stages = tables.keys().map(|stage| quote_identifier(stage)).collect::<Vec<_>>().join(", ");
    Ok(match (&near[..], stages.is_empty()) {
        ([], true) if catalog.store().is_some() => error.hint("no run has finished a stage in this store"),
        ([], true) => error,
        ([], false) => error.hint(format!("the stages are {stages}; `SHOW TABLES` lists their tables")),
        (near, _) => error.hint(format!("did you mean {}? `SHOW TABLES` lists all tables", near.join(", "))),
    })
}

/// Hint that names a run of another pipeline with a table of this name.
fn other_run(log: &RunLog, this: Option<&RunRecord>, name: &str) -> Option<String> {
    let (stage, table) = name.split_once('.')?;
    let has = |run: &&RunRecord| {
        let stage = run.stages.iter().find(|known| known.name.eq_ignore_ascii_case(stage.trim_matches('"')));
        Some(run.run.as_str()) != this.map(|run| run.run.as_str())
            && stage.is_some_and(|stage| stage.tables.iter().any(|known| known == table))
    };
    let run = log.readable().take(SEARCHED_RUNS).find(has)?;
    Some(if this.is_some_and(|this| this.pipeline == run.pipeline) {
        format!("the run `{}` has it: `--run {}`", run.run, run.short_name())
    } else {
        format!("the pipeline `{0}` has it: `--pipeline {0}`, or all runs: `{ALL_RUNS_SCHEMA}.{table}`", run.pipeline)
    })
}

/// Known names that are similar to `name`, the most similar first.
fn nearest(name: &str, known: &BTreeSet<String>) -> Vec<String> {
    let system = STORE_TABLES.iter().map(|table| format!("{STORE_SCHEMA}.{table}"));
    let name = name.to_lowercase();
    let distance = |known: &str| {
        let last = known.rsplit('.').next().unwrap_or(known);
        // The most common mistake: `summary` instead of `test.summary`.
        strsim::damerau_levenshtein(&name, known).min(1 + 4 * strsim::damerau_levenshtein(&name, last))
    };
    let mut near: Vec<(usize, String)> =
        known.iter().cloned().chain(system).map(|known| (distance(&known), known)).collect();
    near.retain(|(distance, _)| *distance <= 2 + name.len() / 4);
    near.sort();
    near.into_iter().take(MAX_SUGGESTIONS).map(|(_, known)| format!("`{known}`")).collect()
}

fn qualified(stage: &str, table: &str) -> String {
    format!("{}.{}", quote_identifier(stage), quote_identifier(table))
}

/// Name as an SQL identifier, quoted if necessary.
pub(super) fn quote_identifier(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain && !name.starts_with(|c: char| c.is_ascii_digit()) { name.to_owned() } else { format!("\"{name}\"") }
}
