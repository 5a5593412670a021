//! Tables over all runs: `all_runs.summary` has the rows of every `summary` in the store.
//!
//! Each result of a stage of a pipeline appears once, however many runs repeated it. Five columns come after those of
//! the table: `last_run` (the last finished run with this result, otherwise the last run), `pipeline`, `stage`, `key`,
//! and `settings`, a map from `stage.setting` to the text of the value, for the stage and all stages that its result
//! follows from. If the table has a column of such a name, that of the run gets the prefix `run_`.
//!
//! Conditions on these columns select the files that are read. Small files are read several at a time.

use std::any::Any;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, MapBuilder, RecordBatch, StringArray, StringBuilder, UInt64Array};
use arrow::compute::{concat_batches, filter_record_batch, take};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::{DFSchema, DataFusionError, Result as SqlResult, ScalarValue};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, stream};

use crate::error::{Error, Result};
use crate::sql::catalog::StoreCatalog;
use crate::sql::errors::sql_error;
use crate::sql::query_threads::QueryThreads;
use crate::sql::setting_comparisons::SettingKinds;
use crate::sql::small_files::{self, external};
use crate::sql::state::STORE_URL;
use crate::store::record::{RunOutcome, RunRecord, StageRecord};
use crate::store::{Artefact, Manifest, Part, Store, flat_settings};
use crate::tables;

/// Columns of the run of a row, after the columns of the table.
const RUN_COLUMNS: [&str; 4] = ["last_run", "pipeline", "stage", "key"];
/// Column of the settings.
const SETTINGS: &str = "settings";

/// Table over all runs.
#[derive(Debug)]
struct AllRunsTable {
    schema: TableSchema,
    /// Columns of the run, one row for each result.
    results: RecordBatch,
    /// Files of each result.
    files: Vec<Vec<PartitionedFile>>,
}

/// Table over all runs, as a query reads it.
pub(super) struct AllRuns {
    pub(super) provider: Arc<dyn TableProvider>,
    /// Size in bytes.
    pub(super) bytes: u64,
    /// Number of results of finished runs that had the table and were removed.
    pub(super) removed: usize,
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
    let results = results_batch(&uses)?;
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
    let provider = Arc::new(AllRunsTable { schema, results, files });
    Ok(Some(AllRuns { provider, bytes, removed }))
}

/// Columns of `all_runs.NAME` as the program declares them; those that depend on settings are left out.
pub(super) fn described_columns(name: &str) -> SchemaRef {
    let described = tables::all().into_iter().find(|table| table.name == name);
    let own = described.map_or_else(|| Arc::new(Schema::empty()) as SchemaRef, |table| table.schema());
    let fields: Vec<FieldRef> = own.fields().iter().cloned().chain(run_fields(&own)).collect();
    Arc::new(Schema::new(fields))
}

/// Settings of the results of a table. Empty for other tables.
pub(super) fn setting_kinds(table: &dyn TableProvider) -> SettingKinds {
    let mut kinds = SettingKinds::new();
    let Some(table) = (table as &dyn Any).downcast_ref::<AllRunsTable>() else { return kinds };
    let maps = table.results.columns().last().and_then(|column| column.as_map_opt());
    let texts =
        maps.and_then(|maps| Some((maps.keys().as_string_opt::<i32>()?, maps.values().as_string_opt::<i32>()?)));
    for (name, value) in texts.into_iter().flat_map(|(names, values)| names.iter().zip(values)) {
        kinds.entry(name.unwrap_or_default().to_owned()).or_default().add(value);
    }
    kinds
}

/// Columns of the run beside the columns `own` of a table. A name that the table has itself gets the prefix `run_`.
fn run_fields(own: &Schema) -> Vec<FieldRef> {
    let map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new()).finish();
    let texts = RUN_COLUMNS.iter().map(|name| (*name, DataType::Utf8));
    let columns = texts.chain(std::iter::once((SETTINGS, map.data_type().clone())));
    let field = |(name, data_type): (&str, DataType)| {
        let name = if own.index_of(name).is_ok() { format!("run_{name}") } else { name.to_owned() };
        Arc::new(Field::new(name, data_type, false))
    };
    columns.map(|column| field(column) as FieldRef).collect()
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

/// Columns of the run, one row for each result.
fn results_batch(uses: &[(&RunRecord, &StageRecord)]) -> Result<RecordBatch> {
    let text = |of: fn(&RunRecord, &StageRecord) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(uses.iter().map(|(run, stage)| of(run, stage))))
    };
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for (run, stage) in uses {
        for (name, value) in flat_settings::settings_of_result(run, stage) {
            map.keys().append_value(name);
            map.values().append_value(value);
        }
        map.append(true)?;
    }
    let map: ArrayRef = Arc::new(map.finish());
    let columns = vec![
        text(|run, _| run.run.clone()),
        text(|run, _| run.pipeline.clone()),
        text(|_, stage| stage.name.clone()),
        text(|_, stage| stage.key.to_string()),
        map,
    ];
    tables::batch(&Arc::new(Schema::new(run_fields(&Schema::empty()))), columns)
}

fn partition_values(results: &RecordBatch, row: usize) -> SqlResult<Vec<ScalarValue>> {
    results.columns().iter().map(|column| ScalarValue::try_from_array(column, row)).collect()
}

/// First file of each result, in groups of results of the same stage, version and settings.
fn first_files<'f>(manifests: &[Manifest], files: &'f [Vec<PartitionedFile>]) -> Vec<Vec<&'f PartitionedFile>> {
    let mut groups: HashMap<(&str, u32, String), Vec<&PartitionedFile>> = HashMap::new();
    for (manifest, files) in manifests.iter().zip(files) {
        let identity = &manifest.identity;
        let group = groups.entry((&identity.kind, identity.version, identity.settings.to_string()));
        group.or_default().extend(files.first());
    }
    groups.into_values().collect()
}

/// Columns of the files of each group.
///
/// Files of a group have the same columns, up to the width of vectors, which depends on inputs too. So one file of a
/// group is read, or all of them if the table has vectors.
async fn file_schemas(
    store: &Store,
    groups: Vec<Vec<&PartitionedFile>>,
    context: &SessionContext,
) -> Result<Vec<SchemaRef>> {
    let first = groups.iter().filter_map(|group| group.first().copied());
    let mut schemas = infer_schemas(store, first, context).await?;
    let fields = schemas.iter().flat_map(|schema| schema.fields());
    if fields.into_iter().any(|field| matches!(field.data_type(), DataType::FixedSizeList(..))) {
        let others = groups.iter().flat_map(|group| group.iter().skip(1).copied());
        schemas.extend(infer_schemas(store, others, context).await?);
    }
    Ok(schemas)
}

/// Distinct columns of files.
async fn infer_schemas(
    store: &Store,
    files: impl Iterator<Item = &PartitionedFile>,
    context: &SessionContext,
) -> Result<Vec<SchemaRef>> {
    let format = ParquetFormat::default().with_force_view_types(false);
    let (state, objects) = (context.state(), store.objects().inner());
    let mut schemas: Vec<SchemaRef> = Vec::new();
    // Several at a time: at a URL, each file is a request.
    let concurrency = state.config_options().execution.meta_fetch_concurrency.get();
    let infer = |file: &'_ PartitionedFile| {
        let file = file.object_meta.clone();
        let (format, state) = (&format, &state);
        async move { format.infer_schema(state, objects, &[file]).await }
    };
    let mut inferred = stream::iter(files.map(infer)).buffered(concurrency);
    while let Some(schema) = inferred.next().await {
        let schema = schema.map_err(|error| sql_error(&error))?;
        if !schemas.contains(&schema) {
            schemas.push(schema);
        }
    }
    drop(inferred);
    Ok(schemas)
}

/// Columns of all schemas, each nullable; `None` without a schema. Vectors of several widths become lists.
fn merge_schemas(table: &str, schemas: &[SchemaRef]) -> Result<Option<SchemaRef>> {
    let mut fields: Vec<Field> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for field in schemas.iter().flat_map(|schema| schema.fields()) {
        let Some(&place) = places.get(field.name().as_str()) else {
            places.insert(field.name(), fields.len());
            fields.push(Field::new(field.name(), field.data_type().clone(), true));
            continue;
        };
        let merged = merge_types(fields[place].data_type(), field.data_type()).ok_or_else(|| {
            let (name, one, other) = (field.name(), fields[place].data_type(), field.data_type());
            Error::usage(format!("SQL: results with the table `{table}` have the column `{name}` as {one} and {other}"))
                .hint("query the runs one by one: `--run RUN`")
        })?;
        fields[place] = Field::new(field.name(), merged, true);
    }
    Ok((!schemas.is_empty()).then(|| Arc::new(Schema::new(fields)) as SchemaRef))
}

/// Type that holds the values of both types.
fn merge_types(one: &DataType, other: &DataType) -> Option<DataType> {
    let item = |of: &DataType| match of {
        DataType::FixedSizeList(item, _) | DataType::List(item) => Some(Arc::clone(item)),
        _ => None,
    };
    if one == other {
        return Some(one.clone());
    }
    match (item(one), item(other)) {
        (Some(a), Some(b)) if a.data_type() == b.data_type() => Some(DataType::List(a)),
        (None, None) if one.is_numeric() && other.is_numeric() => Some(DataType::Float64),
        _ => None,
    }
}

#[async_trait]
impl TableProvider for AllRunsTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.schema.table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> SqlResult<Arc<dyn ExecutionPlan>> {
        let selected = self.select_results(state, filters)?;
        let files = || selected.iter().flat_map(|&row| self.files[row].iter().map(move |file| (row, file)));
        let small: Vec<&PartitionedFile> = files().map(|(_, file)| file).collect();
        if small_files::are_small(&small) {
            let all: Vec<usize> = (0..self.schema.table_schema().fields().len()).collect();
            let rows: Vec<usize> = files().map(|(row, _)| row).collect();
            let batch = self.read(state, &small, &rows, projection.unwrap_or(&all)).await?;
            let schema = batch.schema();
            return Ok(MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None)?);
        }
        let with_values = |(row, file): (usize, &PartitionedFile)| {
            Ok(file.clone().with_partition_values(partition_values(&self.results, row)?))
        };
        let files = files().map(with_values).collect::<SqlResult<Vec<_>>>()?;
        let groups = FileGroup::new(files).split_files(state.config().target_partitions().max(1));
        let source = Arc::new(ParquetSource::new(self.schema.clone()));
        let config = FileScanConfigBuilder::new(ObjectStoreUrl::parse(STORE_URL)?, source)
            .with_file_groups(groups)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        ParquetFormat::default().with_force_view_types(false).create_physical_plan(state, config).await
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> SqlResult<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| {
            if self.is_about_runs(filter) {
                TableProviderFilterPushDown::Inexact
            } else {
                TableProviderFilterPushDown::Unsupported
            }
        };
        Ok(filters.iter().map(support).collect())
    }
}

impl AllRunsTable {
    /// Rows of small files, with the columns `projection` of the table. `results` has the row of [`Self::results`] of each
    /// file.
    async fn read(
        &self,
        state: &dyn Session,
        files: &[&PartitionedFile],
        results: &[usize],
        projection: &[usize],
    ) -> SqlResult<RecordBatch> {
        let (table, file_schema) = (self.schema.table_schema(), self.schema.file_schema());
        let (own, of_run): (Vec<usize>, Vec<usize>) =
            projection.iter().partition(|&&column| column < file_schema.fields().len());
        let own_schema = Arc::new(file_schema.project(&own)?);
        let batches = small_files::read_small_files(state, files, &own_schema).await?;
        let own_rows = concat_batches(&own_schema, &batches)?;
        let places = results.iter().zip(&batches).flat_map(|(&row, batch)| std::iter::repeat_n(row, batch.num_rows()));
        let places = UInt64Array::from_iter_values(places.map(az::SaturatingCast::saturating_cast));
        let mut columns: BTreeMap<usize, ArrayRef> = own.into_iter().zip(own_rows.columns().iter().cloned()).collect();
        for column in of_run {
            let values = self.results.column(column - file_schema.fields().len());
            columns.insert(column, take(values, &places, None)?);
        }
        let columns = projection.iter().map(|column| Arc::clone(&columns[column])).collect();
        tables::batch_of_rows(&Arc::new(table.project(projection)?), columns, own_rows.num_rows()).map_err(external)
    }

    /// Returns true if a condition uses columns of the run only.
    fn is_about_runs(&self, filter: &Expr) -> bool {
        let schema = self.results.schema();
        filter.column_refs().iter().all(|column| schema.index_of(&column.name).is_ok())
    }

    /// Rows of [`Self::results`] that satisfy all conditions on columns of the run.
    fn select_results(&self, state: &dyn Session, filters: &[Expr]) -> SqlResult<Vec<usize>> {
        let mut selected: Vec<usize> = (0..self.files.len()).collect();
        let mut rows = self.results.clone();
        let schema = DFSchema::try_from(self.results.schema())?;
        for filter in filters.iter().filter(|filter| self.is_about_runs(filter)) {
            let filter = unqualified(filter.clone())?;
            let holds = state.create_physical_expr(filter, &schema)?.evaluate(&rows)?.into_array(rows.num_rows())?;
            let holds = holds
                .as_boolean_opt()
                .ok_or_else(|| DataFusionError::Plan("a condition is not true or false".to_owned()))?;
            rows = filter_record_batch(&rows, holds)?;
            let mut keep = holds.iter().map(|value| value == Some(true));
            selected.retain(|_| keep.next() == Some(true));
        }
        Ok(selected)
    }
}

/// Expression whose columns have no table name.
fn unqualified(filter: Expr) -> SqlResult<Expr> {
    use datafusion::common::tree_node::{Transformed, TreeNode};
    let plain = filter.transform(|part| {
        Ok(match part {
            Expr::Column(column) => Transformed::yes(Expr::Column(column.name.into())),
            other => Transformed::no(other),
        })
    })?;
    Ok(plain.data)
}
