//! Table of a stage that the matrix repeats: the rows of all instances, with the axes as columns.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::catalog::TableProvider;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::prelude::SessionContext;

use crate::axis_columns::{axis_batch, axis_fields};
use crate::catalog::InstanceTable;
use crate::query_threads::QueryThreads;
use crate::result_files::{ResultFilesTable, file_schemas, first_files, merge_schemas};
use pairloom_base::error::Result;
use pairloom_stage::Coordinate;
use pairloom_store::Store;

/// Table `name` of the instances of a stage, with its size in bytes. At least one of the tables has a part.
///
/// # Errors
/// The store cannot be read, or a column has types that have nothing in common.
pub(crate) fn instances_table(
    store: &Store,
    name: &str,
    instances: Vec<InstanceTable>,
    context: &SessionContext,
    threads: &QueryThreads,
) -> Result<(Arc<dyn TableProvider>, u64)> {
    let coordinates: Vec<&[Coordinate]> = instances.iter().map(|of| of.coordinates.as_slice()).collect();
    let file = |(path, bytes): &(String, u64)| PartitionedFile::new(path.clone(), *bytes);
    let files: Vec<Vec<PartitionedFile>> = instances.iter().map(|of| of.parts.iter().map(file).collect()).collect();
    let bytes = instances.iter().flat_map(|of| &of.parts).map(|(_, bytes)| bytes).sum();
    let first = first_files(instances.iter().map(|of| &of.manifest), &files);
    let schemas = threads.block_on(file_schemas(store, first, context))?;
    let own = merge_schemas(name, &schemas)?.unwrap_or_else(|| Arc::new(Schema::empty()));
    let fields = axis_fields(&own, &coordinates);
    let results = axis_batch(&fields, &coordinates)?;
    let schema = TableSchema::builder(own).with_table_partition_cols(fields).build();
    Ok((Arc::new(ResultFilesTable { schema, results, files }), bytes))
}
