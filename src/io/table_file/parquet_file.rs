//! Parquet files of people, with any compression and any size of row groups.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use az::SaturatingAs;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};

use super::batches::{Batches, MAX_WIDTH, cut, rows_together, width};
use crate::error::{Error, Result};

/// A Parquet file and its metadata.
#[derive(Debug)]
pub(super) struct ParquetFile {
    content: Bytes,
    metadata: ArrowReaderMetadata,
}

impl ParquetFile {
    pub(super) fn open(content: Bytes) -> Result<Self> {
        if !content.ends_with(b"PAR1") || content.len() < 12 {
            return Err(cut());
        }
        let metadata = distrusted(|| ArrowReaderMetadata::load(&content, ArrowReaderOptions::new()))??;
        Ok(Self { content, metadata })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// Rows of the columns at these places, in order.
    pub(super) fn batches(&self, places: Vec<usize>) -> Result<Batches<'_>> {
        let rows = rows_together(self.values_of_a_row(&places)?);
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), places);
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.content.clone(), self.metadata.clone());
        let reader = distrusted(|| builder.with_projection(mask).with_batch_size(rows).build())??;
        Ok(Box::new(Distrusted(reader)))
    }

    /// Values of the longest row of the columns at these places, as the metadata has it: the mean of its row group.
    ///
    /// A run of equal values is a few bytes in Parquet, whatever its length, so a small file could hold rows without end.
    fn values_of_a_row(&self, places: &[usize]) -> Result<usize> {
        let schema = self.metadata.parquet_schema();
        let mut most = places.iter().map(|&place| width(self.schema().field(place).data_type())).max().unwrap_or(1);
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

/// A reader whose panics are errors of the file.
struct Distrusted(ParquetRecordBatchReader);

impl Iterator for Distrusted {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        match distrusted(|| self.0.next()) {
            Ok(batch) => batch.map(|batch| batch.map_err(Error::from)),
            Err(error) => Some(Err(error)),
        }
    }
}

/// What `read` makes of the file, of which the reader trusts more than we do: where it panics, that is an error of the file.
fn distrusted<T>(read: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).map_err(|_| Error::data("Parquet file contradicts itself"))
}
