//! Encoding and decoding of Parquet parts.

use arrow::array::{ArrayRef, AsArray as _, RecordBatch, RecordBatchReader as _};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, SchemaRef};
use az::SaturatingAs;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use pairloom_base::error::{Error, Result};
use pairloom_tables::from_halves;

/// Maximum number of rows of a decoded batch.
pub const BATCH_ROWS: usize = 8192;

/// Encodes batches as one part. Deterministic: equal batches give equal bytes.
///
/// # Errors
/// The batches do not have the columns of `schema`.
pub fn encode(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Bytes> {
    let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties(schema, batches)))?;
    for batch in batches {
        writer.write(batch)?;
    }
    Ok(writer.into_inner()?.into())
}

/// Batches of a part. Vectors of half precision are f32.
pub struct PartBatches(ParquetRecordBatchReader);

impl Iterator for PartBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|batch| from_halves(batch?))
    }
}

/// Decodes a part into batches of at most [`BATCH_ROWS`] rows.
///
/// # Errors
/// `content` is not a Parquet file.
pub fn decode(content: Bytes) -> Result<PartBatches> {
    Ok(PartBatches(ParquetRecordBatchReaderBuilder::try_new(content)?.with_batch_size(BATCH_ROWS).build()?))
}

/// Decodes a part into one batch. Vectors of half precision are f32.
///
/// # Errors
/// `content` is not a Parquet file.
pub fn decode_whole(content: Bytes) -> Result<RecordBatch> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(content)?;
    let rows = reader.metadata().file_metadata().num_rows().saturating_as::<usize>();
    let reader = reader.with_batch_size(rows.max(1)).build()?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    from_halves(match batches.as_slice() {
        [one] => one.clone(),
        batches => arrow::compute::concat_batches(&schema, batches)?,
    })
}

/// Writer properties: zstd, but no compression of vectors, since f32 values hardly compress and are read many times.
/// Identifiers have bloom filters, so that a query for one of them skips the other parts, whatever their order.
fn properties(schema: &SchemaRef, batches: &[RecordBatch]) -> WriterProperties {
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    let level = ZstdLevel::try_new(1).unwrap_or_default();
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("pairloom ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(level));
    for field in schema.fields() {
        if is_identifier(field) && rows > 0 {
            let path = ColumnPath::from(field.name().as_str());
            properties = properties
                .set_column_bloom_filter_enabled(path.clone(), true)
                .set_column_bloom_filter_max_ndv(path, rows);
        }
        if batches.iter().filter_map(|batch| batch.column_by_name(field.name())).any(has_nan) {
            // Statistics leave out NaN, so `> 5` and a largest value would skip it.
            let path = ColumnPath::from(field.name().as_str());
            properties = properties.set_column_statistics_enabled(path, EnabledStatistics::None);
        }
        if let Some(path) = vector_value_path(field) {
            let path = ColumnPath::new(path);
            properties = properties
                .set_column_compression(path.clone(), Compression::UNCOMPRESSED)
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_statistics_enabled(path, EnabledStatistics::None);
        }
    }
    properties.build()
}

/// True for a column of numbers of which one is NaN.
fn has_nan(column: &ArrayRef) -> bool {
    let of_floats = column.as_primitive_opt::<Float64Type>().map(|values| values.iter().flatten().any(f64::is_nan));
    let of_singles = || column.as_primitive_opt::<Float32Type>().map(|values| values.iter().flatten().any(f32::is_nan));
    of_floats.or_else(of_singles).unwrap_or(false)
}

/// True for a column of identifiers, such as `image_id`.
fn is_identifier(field: &Field) -> bool {
    *field.data_type() == DataType::Int64 && field.name().ends_with("_id")
}

/// Column path of the values of `field` if it is a column of vectors or sets of vectors.
fn vector_value_path(field: &Field) -> Option<Vec<String>> {
    let mut path = vec![field.name().clone()];
    let mut data_type = field.data_type();
    while let DataType::FixedSizeList(item, _) = data_type {
        path.extend(["list".to_owned(), item.name().clone()]);
        data_type = item.data_type();
    }
    (path.len() > 1).then_some(path)
}

/// Schema of a part.
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

    use arrow::array::{Int64Array, StringArray};
    use parquet::file::properties::ReaderProperties;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::file::serialized_reader::ReadOptionsBuilder;

    use super::*;
    use pairloom_tables as tables;

    #[test]
    fn encode_and_decode_round_trip() {
        let schema = tables::features::table().schema_with_width(3);
        let batch = tables::batch(
            &schema,
            vec![
                Arc::new(Int64Array::from(vec![1, 2])),
                Arc::new(StringArray::from(vec!["train", "val"])),
                tables::vector_array(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3).unwrap(),
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

    #[test]
    fn identifiers_have_bloom_filters() {
        let schema = tables::features::table().schema_with_width(1);
        // In an order of which the least and the largest value say nothing.
        let ids = (0..1_000).map(|i| i * 7_919 % 100_003);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(ids.clone())),
            Arc::new(StringArray::from_iter_values(ids.clone().map(|_| "train"))),
            tables::vector_array(vec![0.5; 1_000], 1).unwrap(),
        ];
        let content = encode(&schema, &[tables::batch(&schema, columns).unwrap()]).unwrap();
        let properties = ReaderProperties::builder().set_read_bloom_filter(true).build();
        let options = ReadOptionsBuilder::new().with_reader_properties(properties).build();
        let reader = SerializedFileReader::new_with_options(content, options).unwrap();
        let group = reader.get_row_group(0).unwrap();
        let filter = group.get_column_bloom_filter(0).unwrap();
        assert!(ids.clone().all(|id| filter.check(&id)));
        let known: std::collections::BTreeSet<i64> = ids.collect();
        let others: Vec<i64> = (0..100_003).filter(|id| !known.contains(id)).collect();
        let wrong = others.iter().filter(|id| filter.check(*id)).count();
        // The writer is asked for one in twenty.
        assert!(wrong * 10 < others.len(), "{wrong} of {}", others.len());
        assert!(group.get_column_bloom_filter(1).is_none() && group.get_column_bloom_filter(2).is_none());
    }

    /// Constant values, which zstd would compress well, take their full size.
    #[test]
    fn vectors_of_regions_round_trip_uncompressed() {
        let table = tables::regions::table();
        let schema = table.schema_with_shape(&[36, 128]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![1, 2, 3])),
            Arc::new(StringArray::from(vec!["train", "val", "test"])),
            tables::ColumnValues::into_array(
                tables::regions::RegionColumn::new(vec![0.25; 3 * 36 * 128], 36, 128).unwrap(),
            ),
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
