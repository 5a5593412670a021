//! Tables of the files of several results, with the same columns beside all rows of a result.
//!
//! Conditions on the columns of a result select the files that are read. A scan of DataFusion opens its files one after
//! another, with several requests for each. Small files take less time if they are read whole, several at a time, and decoded
//! by all threads.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchReader, UInt64Array, new_null_array};
use arrow::compute::{cast, concat_batches, filter_record_batch, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, DataFusionError, Result as SqlResult, ScalarValue};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;

use crate::errors::sql_error;
use crate::setting_queries::SettingKinds;
use crate::state::{store_url, threads};
use pairloom_base::error::{Error, Result};
use pairloom_store::{Manifest, Store};
use pairloom_tables as tables;

/// Table of the files of several results, with the same columns beside all rows of a result.
#[derive(Debug)]
pub(super) struct ResultFilesTable {
    pub(crate) schema: TableSchema,
    /// Columns of the result, one row for each.
    pub(crate) results: RecordBatch,
    /// Files of each result.
    pub(crate) files: Vec<Vec<PartitionedFile>>,
}

/// Settings of the results of a table. Empty for other tables.
pub(super) fn setting_kinds(table: &dyn TableProvider) -> SettingKinds {
    let mut kinds = SettingKinds::new();
    let Some(table) = (table as &dyn Any).downcast_ref::<ResultFilesTable>() else { return kinds };
    // The map of settings is the last column.
    let maps = table.results.columns().last().and_then(|column| column.as_map_opt());
    let texts =
        maps.and_then(|maps| Some((maps.keys().as_string_opt::<i32>()?, maps.values().as_string_opt::<i32>()?)));
    for (name, value) in texts.into_iter().flat_map(|(names, values)| names.iter().zip(values)) {
        kinds.entry(name.unwrap_or_default().to_owned()).or_default().add(value);
    }
    kinds
}

#[async_trait]
impl TableProvider for ResultFilesTable {
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
        if are_small(&small) {
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
        let config = FileScanConfigBuilder::new(ObjectStoreUrl::parse(store_url())?, source)
            .with_file_groups(groups)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        ParquetFormat::default().with_force_view_types(false).create_physical_plan(state, config).await
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> SqlResult<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| {
            if self.is_about_results(filter) {
                TableProviderFilterPushDown::Inexact
            } else {
                TableProviderFilterPushDown::Unsupported
            }
        };
        Ok(filters.iter().map(support).collect())
    }
}

impl ResultFilesTable {
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
        let (own, of_result): (Vec<usize>, Vec<usize>) =
            projection.iter().partition(|&&column| column < file_schema.fields().len());
        let own_schema = Arc::new(file_schema.project(&own)?);
        let batches = read_small_files(state, files, &own_schema).await?;
        let own_rows = concat_batches(&own_schema, &batches)?;
        let places = results.iter().zip(&batches).flat_map(|(&row, batch)| std::iter::repeat_n(row, batch.num_rows()));
        let places = UInt64Array::from_iter_values(places.map(az::SaturatingCast::saturating_cast));
        let mut columns: BTreeMap<usize, ArrayRef> = own.into_iter().zip(own_rows.columns().iter().cloned()).collect();
        for column in of_result {
            let values = self.results.column(column - file_schema.fields().len());
            columns.insert(column, take(values, &places, None)?);
        }
        let columns = projection.iter().map(|column| Arc::clone(&columns[column])).collect();
        tables::batch_of_rows(&Arc::new(table.project(projection)?), columns, own_rows.num_rows()).map_err(external)
    }

    /// Returns true if a condition uses columns of the result only.
    fn is_about_results(&self, filter: &Expr) -> bool {
        let schema = self.results.schema();
        filter.column_refs().iter().all(|column| schema.index_of(&column.name).is_ok())
    }

    /// Rows of [`Self::results`] that satisfy all conditions on columns of the result.
    fn select_results(&self, state: &dyn Session, filters: &[Expr]) -> SqlResult<Vec<usize>> {
        let mut selected: Vec<usize> = (0..self.files.len()).collect();
        let mut rows = self.results.clone();
        let schema = DFSchema::try_from(self.results.schema())?;
        for filter in filters.iter().filter(|filter| self.is_about_results(filter)) {
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

fn partition_values(results: &RecordBatch, row: usize) -> SqlResult<Vec<ScalarValue>> {
    results.columns().iter().map(|column| ScalarValue::try_from_array(column, row)).collect()
}

/// First file of each result, in groups of results of the same stage, version and settings, in the order of the results.
pub(super) fn first_files<'f, 'm>(
    manifests: impl IntoIterator<Item = &'m Manifest>,
    files: &'f [Vec<PartitionedFile>],
) -> Vec<Vec<&'f PartitionedFile>> {
    let mut groups: Vec<Vec<&PartitionedFile>> = Vec::new();
    let mut places: HashMap<(&str, u32, String), usize> = HashMap::new();
    for (manifest, files) in manifests.into_iter().zip(files) {
        let identity = &manifest.identity;
        let place = places.entry((&identity.kind, identity.version, identity.settings.to_string()));
        let place = *place.or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].extend(files.first());
    }
    groups
}

/// Columns of the files of each group.
///
/// Files of a group have the same columns, up to the width of vectors, which depends on inputs too. So one file of a
/// group is read, or all of them if the table has vectors.
pub(super) async fn file_schemas(
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
    let (state, objects) = (context.state(), store.verified_objects());
    let mut schemas: Vec<SchemaRef> = Vec::new();
    // Several at a time: at a URL, each file is a request.
    let concurrency = state.config_options().execution.meta_fetch_concurrency.get();
    let infer = |file: &'_ PartitionedFile| {
        let file = file.object_meta.clone();
        let (format, state, objects) = (&format, &state, &objects);
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
pub(super) fn merge_schemas(table: &str, schemas: &[SchemaRef]) -> Result<Option<SchemaRef>> {
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

/// Size of a small file. A scan reads that much from the end of any file with its first request.
const SMALL_FILE_BYTES: u64 = 512 << 10;
/// Total size up to which files are read whole.
const MAX_BYTES: u64 = 64 << 20;

/// Returns true if all files are small, and together fit into memory.
pub(super) fn are_small(files: &[&PartitionedFile]) -> bool {
    let sizes = || files.iter().map(|file| file.object_meta.size);
    sizes().all(|bytes| bytes <= SMALL_FILE_BYTES) && sizes().sum::<u64>() <= MAX_BYTES
}

/// Rows of each file of the store, with the columns `schema`. A column that a file lacks is null.
///
/// # Errors
/// A file is absent or damaged, or a column has a type that cannot be converted.
pub(super) async fn read_small_files(
    state: &dyn Session,
    files: &[&PartitionedFile],
    schema: &SchemaRef,
) -> SqlResult<Vec<RecordBatch>> {
    let store = state.runtime_env().object_store(ObjectStoreUrl::parse(store_url())?)?;
    let concurrency = state.config_options().execution.meta_fetch_concurrency.get();
    let read = |file: &&PartitionedFile| {
        let (store, path) = (&store, file.object_meta.location.clone());
        async move { store.get(&path).await?.bytes().await }
    };
    let reads = stream::iter(files.iter().map(read)).buffered(concurrency);
    let contents: Result<Vec<Bytes>, object_store::Error> = reads.try_collect().await;
    let contents = contents.map_err(|error| DataFusionError::ObjectStore(Box::new(error)))?;
    let contents: Vec<(&PartitionedFile, Bytes)> = files.iter().copied().zip(contents).collect();
    let decode = |contents: &[(&PartitionedFile, Bytes)]| {
        let of_file = |(file, content): &(&PartitionedFile, Bytes)| {
            decode(content, schema).map_err(|error| named(&error, file.object_meta.location.as_ref()))
        };
        contents.iter().map(of_file).collect::<Vec<_>>()
    };
    let share = contents.len().div_ceil(threads()).max(1);
    let decoded = std::thread::scope(|scope| {
        let workers: Vec<_> = contents.chunks(share).map(|chunk| scope.spawn(move || decode(chunk))).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| internal())).collect::<SqlResult<Vec<_>>>()
    });
    decoded?.into_iter().flatten().collect()
}

/// Error of this crate as one of DataFusion.
pub(super) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn internal() -> DataFusionError {
    DataFusionError::Internal("a thread that decodes a file panicked".to_owned())
}

/// Error of a file, with its path in the store. The category stays.
fn named(error: &DataFusionError, path: &str) -> DataFusionError {
    external(sql_error(error).context(format!("`{path}`")))
}

/// Rows of a file with the columns `schema`.
fn decode(content: &Bytes, schema: &SchemaRef) -> SqlResult<RecordBatch> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(content.clone())?;
    let roots = builder.schema().fields().iter().enumerate();
    let expected = roots.filter(|(_, field)| schema.index_of(field.name()).is_ok()).map(|(root, _)| root);
    let mask = ProjectionMask::roots(builder.parquet_schema(), expected.collect::<Vec<_>>());
    let reader = builder.with_projection(mask).build()?;
    let read = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    let rows = concat_batches(&read, &batches)?;
    let columns = schema.fields().iter().map(|field| column(&rows, field)).collect::<SqlResult<_>>()?;
    tables::batch_of_rows(schema, columns, rows.num_rows()).map_err(external)
}

/// Column of a file with the type of `field`.
fn column(rows: &RecordBatch, field: &Field) -> SqlResult<ArrayRef> {
    match rows.column_by_name(field.name()) {
        Some(column) if column.data_type() == field.data_type() => Ok(Arc::clone(column)),
        Some(column) => Ok(cast(column, field.data_type())?),
        None => Ok(new_null_array(field.data_type(), rows.num_rows())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_base::error::ErrorCategory;

    #[test]
    fn a_damaged_file_is_named() {
        let schema = SchemaRef::new(Schema::empty());
        let error = decode(&Bytes::from_static(b"PAR1 no parquet PAR1"), &schema).unwrap_err();
        let got = sql_error(&named(&error, "artefacts/evaluate/part-0.parquet"));
        assert_eq!(got.category(), ErrorCategory::Data, "{got}");
        assert!(got.to_string().contains("`artefacts/evaluate/part-0.parquet`"), "{got}");
        assert!(got.hint_text().is_some_and(|hint| hint.starts_with("run the pipeline again")), "{got}");
    }
}
