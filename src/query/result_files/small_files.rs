//! Small files of a table, read whole.
//!
//! A scan of DataFusion opens its files one after another, with several requests for each. Small files take less time if
//! they are read whole, several at a time, and decoded by all threads.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchReader, new_null_array};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{Field, SchemaRef};
use bytes::Bytes;
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result as SqlResult};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;

use crate::errors::sql_error;
use crate::state::{store_url, threads};
use pairloom_base::error::Error;
use pairloom_tables as tables;

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
    let wanted = roots.filter(|(_, field)| schema.index_of(field.name()).is_ok()).map(|(root, _)| root);
    let mask = ProjectionMask::roots(builder.parquet_schema(), wanted.collect::<Vec<_>>());
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
        let schema = SchemaRef::new(arrow::datatypes::Schema::empty());
        let error = decode(&Bytes::from_static(b"PAR1 no parquet PAR1"), &schema).unwrap_err();
        let got = sql_error(&named(&error, "artefacts/evaluate/part-0.parquet"));
        assert_eq!(got.category(), ErrorCategory::Data, "{got}");
        assert!(got.to_string().contains("`artefacts/evaluate/part-0.parquet`"), "{got}");
        assert!(got.hint_text().is_some_and(|hint| hint.starts_with("run the pipeline again")), "{got}");
    }
}
