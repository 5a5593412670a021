//! Batches to the bytes of a Parquet part and back.

use arrow::array::{RecordBatch, RecordBatchReader as _};
use arrow::datatypes::{DataType, Field, SchemaRef};
use az::SaturatingAs;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::error::{Error, Result};

/// Most rows of a batch that is read.
pub const BATCH_ROWS: usize = 8192;

/// The bytes of one part. The same batches give the same bytes.
///
/// # Errors
/// The batches do not have the columns of `schema`.
pub fn encode(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Bytes> {
    let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties(schema)))?;
    for batch in batches {
        writer.write(batch)?;
    }
    Ok(writer.into_inner()?.into())
}

/// The batches of one part, of at most [`BATCH_ROWS`] rows each.
///
/// # Errors
/// `content` is not a Parquet file.
pub fn decode(content: Bytes) -> Result<ParquetRecordBatchReader> {
    Ok(ParquetRecordBatchReaderBuilder::try_new(content)?.with_batch_size(BATCH_ROWS).build()?)
}

/// All rows of one part, in one batch.
///
/// # Errors
/// `content` is not a Parquet file.
pub fn decode_whole(content: Bytes) -> Result<RecordBatch> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(content)?;
    let rows = reader.metadata().file_metadata().num_rows().saturating_as::<usize>();
    let reader = reader.with_batch_size(rows.max(1)).build()?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    match batches.as_slice() {
        [one] => Ok(one.clone()),
        batches => Ok(arrow::compute::concat_batches(&schema, batches)?),
    }
}

/// zstd for what people read; vectors as they are, because f32 values hardly compress and are read over and over.
fn properties(schema: &SchemaRef) -> WriterProperties {
    let level = ZstdLevel::try_new(1).unwrap_or_default();
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("pairloom ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(level));
    for field in schema.fields() {
        if let Some(path) = vectors(field) {
            let path = ColumnPath::new(path);
            properties = properties
                .set_column_compression(path.clone(), Compression::UNCOMPRESSED)
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_statistics_enabled(path, EnabledStatistics::None);
        }
    }
    properties.build()
}

/// The path of the values of `field` if it holds vectors, perhaps several to a row.
fn vectors(field: &Field) -> Option<Vec<String>> {
    let mut path = vec![field.name().clone()];
    let mut data_type = field.data_type();
    while let DataType::FixedSizeList(item, _) = data_type {
        path.extend(["list".to_owned(), item.name().clone()]);
        data_type = item.data_type();
    }
    (path.len() > 1).then_some(path)
}

/// The schema of a part.
///
/// # Errors
/// `content` is not a Parquet file.
pub fn schema(content: &Bytes) -> Result<SchemaRef> {
    let builder =
        ParquetRecordBatchReaderBuilder::try_new(content.clone()).map_err(|error| Error::data(error.to_string()))?;
    Ok(builder.schema().clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;
    use crate::tables;

    #[test]
    fn a_part_comes_back_as_it_was() {
        let schema = tables::features::table().schema_of_width(3);
        let batch = tables::batch(
            &schema,
            vec![
                Arc::new(Int64Array::from(vec![1, 2])),
                Arc::new(StringArray::from(vec!["train", "val"])),
                tables::vectors(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3).unwrap(),
            ],
        )
        .unwrap();
        let content = encode(&schema, std::slice::from_ref(&batch)).unwrap();
        assert_eq!(content, encode(&schema, std::slice::from_ref(&batch)).unwrap());
        let back: Vec<_> = decode(content.clone()).unwrap().map(Result::unwrap).collect();
        assert_eq!(back, [batch]);
        assert!(decode(content.slice(..content.len() - 9)).is_err());
        assert!(decode(Bytes::new()).is_err());
    }

    /// Values that zstd would shrink to nothing: what is stored as it is takes its full size.
    #[test]
    fn vectors_of_regions_come_back_and_are_not_compressed() {
        let table = tables::regions::table();
        let schema = table.schema_of_shape(&[36, 128]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![1, 2, 3])),
            Arc::new(StringArray::from(vec!["train", "val", "test"])),
            tables::Values::into_array(tables::regions::Regions::new(vec![0.25; 3 * 36 * 128], 36, 128).unwrap()),
        ];
        let batch = tables::batch(&schema, columns).unwrap();
        let content = encode(&schema, std::slice::from_ref(&batch)).unwrap();
        let reader = SerializedFileReader::new(content.clone()).unwrap();
        let groups = reader.metadata().row_groups();
        let values = groups[0].columns().last().unwrap();
        assert_eq!(values.column_path().string(), "regions.list.item.list.item");
        assert_eq!(values.compression(), Compression::UNCOMPRESSED);
        assert_eq!(values.dictionary_page_offset(), None);
        assert!(values.compressed_size() >= 3 * 36 * 128 * 4, "{}", values.compressed_size());
        let back: Vec<_> = decode(content).unwrap().map(Result::unwrap).collect();
        assert_eq!(back, [batch]);
    }
}
