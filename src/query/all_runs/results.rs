//! Results of all runs that have a table.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::prelude::SessionContext;

use super::run_columns::{described_columns, results_batch, run_fields};
use crate::catalog::StoreCatalog;
use crate::errors::sql_error;
use crate::query_threads::QueryThreads;
use crate::result_files::{ResultFilesTable, file_schemas, first_files, merge_schemas};
use pairloom_base::error::Result;
use pairloom_store::record::{RunOutcome, RunRecord, StageRecord};
use pairloom_store::{Artefact, Part};
use pairloom_tables as tables;

/// Table over all runs, as a query reads it.
pub(crate) struct AllRuns {
    pub(crate) provider: Arc<dyn TableProvider>,
    /// Size in bytes.
    pub(crate) bytes: u64,
    /// Number of results of finished runs that had the table and were removed.
    pub(crate) removed: usize,
}

/// Table `all_runs.NAME`; `None` if no stage of any run has a table of this name.
///
/// # Errors
/// The store cannot be read, or a column has types that have nothing in common.
pub(crate) fn table(
    catalog: &StoreCatalog,
    name: &str,
    context: &SessionContext,
    threads: &QueryThreads,
) -> Result<Option<AllRuns>> {
    let Some(log) = catalog.log() else { return Ok(None) };
    log.read_all()?;
    let (mut uses, mut manifests, mut bytes, mut removed) = (Vec::new(), Vec::new(), 0, 0);
    let runs: Vec<&RunRecord> = log.readable().collect();
    let candidates = candidates(runs.iter().copied(), name);
    let artefact = |stage: &StageRecord| log.store().artefact(&stage.kind, &stage.key);
    let found = log.store().manifests_of(candidates.iter().map(|(_, stage)| (stage.kind.as_str(), &stage.key)))?;
    for ((run, stage), manifest) in candidates.iter().zip(found) {
        let Some(manifest) = manifest.transpose()? else {
            removed += usize::from(run.outcome == RunOutcome::Finished && !stage.tables.is_empty());
            continue;
        };
        if let Some(parts) = manifest.tables.get(name) {
            bytes += parts.iter().map(|part| part.bytes).sum::<u64>();
            uses.push((*run, *stage));
            manifests.push(manifest);
        }
    }
    let described = tables::all().into_iter().find(|table| table.name == name);
    if uses.is_empty() && described.is_none() {
        return Ok(None);
    }
    let results = results_batch(&uses, &log.pipeline_names()?)?;
    let files: Vec<Vec<PartitionedFile>> = uses
        .iter()
        .zip(&manifests)
        .map(|((_, stage), manifest)| {
            let (artefact, parts) = (artefact(stage), manifest.tables[name].iter());
            let path = |part: &Part| artefact.path(&Artefact::part_name(name, part.index));
            parts.map(|part| PartitionedFile::new(path(part), part.bytes)).collect()
        })
        .collect();
    let schemas = threads.block_on(file_schemas(log.store(), first_files(&manifests, &files), context))?;
    let own = match merge_schemas(name, &schemas)? {
        Some(schema) => schema,
        None => described.map_or_else(|| Arc::new(Schema::empty()), |table| table.schema()),
    };
    let partition_fields = run_fields(&own);
    let results = tables::batch(&Arc::new(Schema::new(partition_fields.clone())), results.columns().to_vec())?;
    if schemas.is_empty() {
        let empty = MemTable::try_new(described_columns(name), vec![vec![]]).map_err(|error| sql_error(&error))?;
        return Ok(Some(AllRuns { provider: Arc::new(empty), bytes: 0, removed }));
    }
    let schema = TableSchema::builder(own).with_table_partition_cols(partition_fields).build();
    let provider = Arc::new(ResultFilesTable { schema, results, files });
    Ok(Some(AllRuns { provider, bytes, removed }))
}

/// Stages that may have the table: for each result of a stage of a pipeline, the last finished run with it, otherwise
/// the last run with it. `runs` is ordered from the latest to the first.
fn candidates<'r>(
    runs: impl Iterator<Item = &'r RunRecord> + Clone,
    table: &str,
) -> Vec<(&'r RunRecord, &'r StageRecord)> {
    let mut seen = HashSet::new();
    let is_finished = |run: &&RunRecord| run.outcome == RunOutcome::Finished;
    let finished = runs.clone().filter(is_finished);
    let stages = finished.chain(runs.filter(move |run| !is_finished(run)));
    let stages = stages.flat_map(|run| run.stages.iter().map(move |stage| (run, stage)));
    // Records of older versions have neither identities nor names of tables.
    let may_have = |stage: &StageRecord| stage.identity.is_none() || stage.tables.iter().any(|name| name == table);
    stages
        .filter(|(_, stage)| may_have(stage))
        .filter(|(run, stage)| seen.insert((run.pipeline_identity(), stage.name.as_str(), stage.key.as_str())))
        .collect()
}
