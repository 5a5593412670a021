//! Parquet files of users, with any compression and any size of row groups.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use az::SaturatingAs;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};

use super::batches::{BatchIterator, MAX_WIDTH, rows_per_batch, truncated_error, values_per_row};
use crate::error::{Error, Result};

/// Parquet file with its metadata.
#[derive(Debug)]
pub(super) struct ParquetFile {
    content: Bytes,
    metadata: ArrowReaderMetadata,
}

impl ParquetFile {
    pub(super) fn open(content: Bytes) -> Result<Self> {
        if !content.ends_with(b"PAR1") || content.len() < 12 {
            return Err(truncated_error());
        }
        let metadata = catch_panic(|| ArrowReaderMetadata::load(&content, ArrowReaderOptions::new()));
        let metadata = metadata
            .and_then(|metadata| metadata.map_err(|error| Error::from(error).context("its metadata cannot be read")));
        let metadata = metadata.map_err(|error| error.hint("the file is damaged: copy it or create it again"))?;
        Ok(Self { content, metadata })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// Reads the rows of the columns at these indices, in order.
    pub(super) fn batches(&self, places: Vec<usize>) -> Result<BatchIterator<'_>> {
        let values = self.max_values_per_row(&places)?.max(self.values_by_bytes(&places));
        let rows = rows_per_batch(values);
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), places);
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.content.clone(), self.metadata.clone());
        let reader = catch_panic(|| builder.with_projection(mask).with_batch_size(rows).build())??;
        Ok(Box::new(PanicCatchingReader(reader)))
    }

    /// Size of a row of the columns at these indices in values of 4 bytes, by the metadata: the largest mean of a row group.
    fn values_by_bytes(&self, places: &[usize]) -> usize {
        let schema = self.metadata.parquet_schema();
        let groups = self.metadata.metadata().row_groups().iter();
        let each = groups.map(|group| {
            let columns = group.columns().iter().enumerate();
            let columns = columns.filter(|(leaf, _)| places.contains(&schema.get_column_root_idx(*leaf)));
            let bytes: u64 = columns.map(|(_, column)| column.uncompressed_size().saturating_as::<u64>()).sum();
            bytes / group.num_rows().saturating_as::<u64>().max(1) / 4
        });
        each.max().unwrap_or_default().saturating_as::<usize>()
    }

    /// Maximum number of values per row of the columns at these indices, by the metadata: the mean of each row group.
    ///
    /// Parquet stores a run of equal values of any length in a few bytes, so a small file could contain huge rows.
    fn max_values_per_row(&self, places: &[usize]) -> Result<usize> {
        let schema = self.metadata.parquet_schema();
        let mut most =
            places.iter().map(|&place| values_per_row(self.schema().field(place).data_type())).max().unwrap_or(1);
        for (number, group) in self.metadata.metadata().row_groups().iter().enumerate() {
            let rows = group.num_rows().saturating_as::<u64>();
            for (leaf, column) in group.columns().iter().enumerate() {
                if !places.contains(&schema.get_column_root_idx(leaf)) {
                    continue;
                }
                let values = u64::try_from(column.num_values()).unwrap_or(u64::MAX);
                let each = values.div_ceil(rows.max(1));
                most = most.max(each.saturating_as::<usize>());
                if most > MAX_WIDTH {
                    return Err(Error::data(format!(
                        "row group {number} has {values} values in {rows} rows of `{}`, wanted at most {MAX_WIDTH} a row",
                        column.column_path().string()
                    )));
                }
            }
        }
        Ok(most)
    }
}

/// Reader that turns panics of the Parquet library into errors.
struct PanicCatchingReader(ParquetRecordBatchReader);

impl Iterator for PanicCatchingReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        match catch_panic(|| self.0.next()) {
            Ok(batch) => batch.map(|batch| batch.map_err(Error::from)),
            Err(error) => Some(Err(error)),
        }
    }
}

/// Runs `read` and turns a panic of the Parquet library on an invalid file into an error.
fn catch_panic<T>(read: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).map_err(|_| Error::data("Parquet file has inconsistent metadata"))
}
