//! Table of the files of several results that a query reads.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt64Array};
use arrow::compute::{concat_batches, filter_record_batch, take};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
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
use datafusion::physical_plan::ExecutionPlan;

use super::small_files::{self, external};
use crate::settings_column::SettingKinds;
use crate::state::store_url;
use pairloom_tables as tables;

/// Table of the files of several results, with the same columns beside all rows of a result.
#[derive(Debug)]
pub(crate) struct ResultFilesTable {
    pub(crate) schema: TableSchema,
    /// Columns of the result, one row for each.
    pub(crate) results: RecordBatch,
    /// Files of each result.
    pub(crate) files: Vec<Vec<PartitionedFile>>,
}

/// Settings of the results of a table. Empty for other tables.
pub(crate) fn setting_kinds(table: &dyn TableProvider) -> SettingKinds {
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
        let batches = small_files::read_small_files(state, files, &own_schema).await?;
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
