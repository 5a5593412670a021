//! Tables over all runs: `all_runs.summary` has the rows of every `summary` in the store.
//!
//! Each result of a stage of a pipeline appears once, however many runs repeated it. Five columns come after those of
//! the table: `last_run` (the last finished run with this result, otherwise the last run), `pipeline`, `stage`, `key`,
//! and `settings`, a map from `stage.setting` to the text of the value, for the stage and all stages that its result
//! follows from. If the table has a column of such a name, that of the run gets the prefix `run_`.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, MapBuilder, RecordBatch, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::prelude::SessionContext;

use crate::catalog::{StoreCatalog, ranks_from_0};
use crate::errors::sql_error;
use crate::query_threads::QueryThreads;
use crate::result_files::{ResultFilesTable, file_schemas, first_files, merge_schemas};
use crate::setting_queries::{RUN_PREFIX, SETTINGS};
use pairloom_base::error::Result;
use pairloom_store::record::{RunOutcome, RunRecord, StageRecord};
use pairloom_store::{Artefact, Part, comparison};
use pairloom_tables as tables;

/// Table over all runs, as a query reads it.
pub(crate) struct AllRuns {
    pub(crate) provider: Arc<dyn TableProvider>,
    /// Size in bytes.
    pub(crate) bytes: u64,
    /// Number of results of finished runs that had the table and were removed, or are of an earlier build whose ranks begin at 0.
    pub(crate) removed: usize,
}

/// Table `all_runs.NAME`; `None` if no stage of any run has a table of this name.
///
/// # Errors
/// The store cannot be read, or a column has types that have nothing in common.
pub(super) fn table(
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
        if ranks_from_0(&manifest, name) {
            removed += 1;
        } else if let Some(parts) = manifest.tables.get(name) {
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

/// Columns of the run of a row, after the columns of the table.
const RUN_COLUMNS: [&str; 4] = ["last_run", "pipeline", "stage", "key"];

/// Columns of `all_runs.NAME` as the program declares them; those that depend on settings are left out.
pub(super) fn described_columns(name: &str) -> SchemaRef {
    let described = tables::all().into_iter().find(|table| table.name == name);
    let own = described.map_or_else(|| Arc::new(Schema::empty()) as SchemaRef, |table| table.schema());
    let fields: Vec<FieldRef> = own.fields().iter().cloned().chain(run_fields(&own)).collect();
    Arc::new(Schema::new(fields))
}

/// Columns of the run beside the columns `own` of a table. A name that the table has itself gets the prefix `run_`.
pub(super) fn run_fields(own: &Schema) -> Vec<FieldRef> {
    let map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new()).finish();
    let texts = RUN_COLUMNS.iter().map(|name| (*name, DataType::Utf8));
    let columns = texts.chain(std::iter::once((SETTINGS, map.data_type().clone())));
    let field = |(name, data_type): (&str, DataType)| {
        let name = if own.index_of(name).is_ok() { format!("{RUN_PREFIX}{name}") } else { name.to_owned() };
        Arc::new(Field::new(name, data_type, false))
    };
    columns.map(|column| field(column) as FieldRef).collect()
}

/// Columns of the run, one row for each result.
pub(super) fn results_batch(
    uses: &[(&RunRecord, &StageRecord)],
    pipelines: &BTreeMap<&str, &str>,
) -> Result<RecordBatch> {
    let text = |of: &dyn Fn(&RunRecord, &StageRecord) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(uses.iter().map(|(run, stage)| of(run, stage))))
    };
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for (run, stage) in uses {
        for (name, value) in comparison::settings_of_result(run, stage) {
            map.keys().append_value(name);
            map.values().append_value(value);
        }
        map.append(true)?;
    }
    let map: ArrayRef = Arc::new(map.finish());
    let columns = vec![
        text(&|run, _| run.run.clone()),
        text(&|run, _| pipelines[run.pipeline_identity()].to_owned()),
        text(&|_, stage| stage.name.clone()),
        text(&|_, stage| stage.key.to_string()),
        map,
    ];
    tables::batch(&Arc::new(Schema::new(run_fields(&Schema::empty()))), columns)
}
