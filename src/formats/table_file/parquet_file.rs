//! Parquet files of users, with any compression and any size of row groups.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::ParquetMetaDataReader;

use super::batches::{BATCH_TEXT_BYTES, BatchIterator, Check, check_row, rows_per_batch, values_per_row};
use crate::arrow_metadata::check_arrow_schema;
use crate::expansion_limits::ExpansionLimits;
use crate::parquet_check::{ArrowColumn, arrow_columns, check_chunk, check_footer, check_places};
use pairloom_base::error::{Error, Result};
use pairloom_storage::parquet::BATCH_ROWS;
use pairloom_storage::pread::PreadFile;
use pairloom_storage::shard::catch_panic;

/// Parquet file with its metadata.
#[derive(Debug)]
pub(super) struct ParquetFile {
    file: PreadFile,
    metadata: ArrowReaderMetadata,
    arrow_columns: Vec<ArrowColumn>,
}

impl ParquetFile {
    pub(super) fn open(file: PreadFile) -> Result<Self> {
        check_footer(&file)?;
        let metadata =
            read_metadata(&file).map_err(|error| error.hint("the file is damaged: copy it or create it again"))?;
        let arrow_columns = arrow_columns(metadata.schema());
        Ok(Self { file, metadata, arrow_columns })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// Reads the rows of the columns at these indices, in order. Row groups are checked one after the other.
    pub(super) fn batches<'f>(&'f self, places: Vec<usize>, check: Check<'f>) -> BatchIterator<'f> {
        let groups = 0..self.metadata.metadata().num_row_groups();
        let expansion = ExpansionLimits::of_file(self.file.size());
        Box::new(ParquetBatches { file: self, places, check, expansion, groups, reader: None })
    }

    /// Reader of a row group, once its pages are checked.
    fn group_reader(
        &self,
        group: usize,
        places: &[usize],
        check: &Check<'_>,
        expansion: &mut ExpansionLimits,
    ) -> Result<ParquetRecordBatchReader> {
        let rows = self.rows_per_batch(group, places, check, expansion)?;
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), places.iter().copied());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.file.clone(), self.metadata.clone());
        let builder = builder.with_row_groups(vec![group]).with_projection(mask).with_batch_size(rows);
        Ok(catch_panic(|| builder.build())??)
    }

    /// Number of rows of a batch of a row group, by the largest row. Adds the group to `expansion`.
    ///
    /// Parquet stores a run of equal values of any length in a few bytes, so a small file could contain huge rows.
    fn rows_per_batch(
        &self,
        group: usize,
        places: &[usize],
        check: &Check<'_>,
        expansion: &mut ExpansionLimits,
    ) -> Result<usize> {
        let schema = self.metadata.parquet_schema();
        let mut rows = BATCH_ROWS;
        let group = self.metadata.metadata().row_group(group);
        for (leaf, column) in group.columns().iter().enumerate() {
            let root = schema.get_column_root_idx(leaf);
            if !places.contains(&root) {
                continue;
            }
            let arrow_column = self.arrow_columns.get(leaf).copied().unwrap_or_default();
            let sizes = check_chunk(&self.file, column, group.num_rows(), arrow_column, check)?;
            expansion.add_bytes(sizes.claimed.max(sizes.texts))?;
            let bytes = sizes.longest_text.saturating_mul(sizes.longest_row);
            check_row(&column.column_path().string(), sizes.longest_row, sizes.longest_text, bytes)?;
            let values = sizes.longest_row.max(values_per_row(self.schema().field(root).data_type()));
            rows = rows.min(rows_per_batch(values));
            // Texts of a row: none is longer than the longest.
            if let Some(fitting) = BATCH_TEXT_BYTES.checked_div(bytes) {
                rows = rows.min(fitting.max(1));
            }
        }
        expansion.add_rows(u64::try_from(group.num_rows()).unwrap_or(u64::MAX))?;
        Ok(rows)
    }
}

/// Reads the metadata of a file whose footer is checked.
fn read_metadata(file: &PreadFile) -> Result<ArrowReaderMetadata> {
    let unreadable = |error| Error::from(error).context("its metadata cannot be read");
    let metadata = catch_panic(|| ParquetMetaDataReader::new().parse_and_finish(file))?.map_err(unreadable)?;
    check_arrow_schema(metadata.file_metadata())?;
    check_places(file, &metadata)?;
    catch_panic(|| ArrowReaderMetadata::try_new(Arc::new(metadata), ArrowReaderOptions::new()))?.map_err(unreadable)
}

/// Batches of a file, row group by row group.
struct ParquetBatches<'f> {
    file: &'f ParquetFile,
    places: Vec<usize>,
    check: Check<'f>,
    expansion: ExpansionLimits,
    groups: Range<usize>,
    reader: Option<ParquetRecordBatchReader>,
}

impl Iterator for ParquetBatches<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(reader) = &mut self.reader {
                match catch_panic(|| reader.next()) {
                    Ok(Some(batch)) => return Some(batch.map_err(Error::from)),
                    Ok(None) => self.reader = None,
                    Err(error) => return Some(Err(error)),
                }
            }
            let group = self.groups.next()?;
            match self.file.group_reader(group, &self.places, &self.check, &mut self.expansion) {
                Ok(reader) => self.reader = Some(reader),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
