//! Tests of the space that missing lists of fixed size take.

use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeListArray, RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Field, Float32Type, Schema};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowWriter, add_encoded_arrow_schema_to_metadata};
use parquet::file::properties::{WriterProperties, WriterVersion};

use super::check_file;
use super::forged::run;
use super::levels::missing;
use super::tests::{message, sizes, stored};
use pairloom_storage::pread::PreadFile;
use pairloom_tables as tables;

#[test]
fn missing_lists_of_fixed_size_are_counted() {
    let rows = (0..1_000).map(|i| (i % 10 != 0).then(|| vec![Some(1.0f32); 3]));
    let vectors: ArrayRef = Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 3));
    let batch = RecordBatch::try_from_iter([("vector", vectors)]).unwrap();
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let properties = WriterProperties::builder().set_writer_version(version).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        let sizes = sizes(&writer.into_inner().unwrap()).unwrap()[0];
        assert_eq!((sizes.missing, sizes.longest_row), (100, 3), "{version:?}");
    }
    // A run of level 0, a run of level 2, and eight levels of two bits: 2, 1, 0, 2, 2, 2, 0, 2.
    let levels = [run(0, 5), run(2, 7), vec![3, 0b1000_0110, 0b1000_1010]].concat();
    assert_eq!(missing(&levels, 2, 20), Some(5 + 3));
    assert_eq!((missing(&levels, 2, 4), missing(&levels, 2, 21)), (Some(4), None));
}

/// Space for 8,192 lists of 20,000 numbers of four bytes is 655,360,000 bytes: two columns of them have more than a gibibyte.
#[test]
fn the_space_of_missing_lists_is_that_of_all_columns() {
    let kind = |is_fixed: bool| {
        let item = Arc::new(Field::new("item", DataType::Float32, true));
        if is_fixed { DataType::FixedSizeList(item, 20_000) } else { DataType::List(item) }
    };
    let checked = |names: &[&str]| {
        let schema = |is_fixed| {
            Schema::new(names.iter().map(|name| Field::new(*name, kind(is_fixed), true)).collect::<Vec<_>>())
        };
        let columns = names.iter().map(|_| new_null_array(&kind(false), 10_000)).collect();
        let batch = tables::batch(&Arc::new(schema(false)), columns).unwrap();
        // Lists in the file, which its own Arrow schema says are of fixed size.
        let mut properties = WriterProperties::default();
        add_encoded_arrow_schema_to_metadata(&schema(true), &mut properties);
        let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let mut writer = ArrowWriter::try_new_with_options(Vec::new(), batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        let (_folder, path) = stored(&writer.into_inner().unwrap());
        PreadFile::open(&path).and_then(|file| check_file(&file, &|| Ok(())))
    };
    checked(&["a"]).unwrap();
    let got = message(checked(&["a", "b"]));
    assert!(
        got.contains("missing lists up to `b.list.item` take 1310720000 bytes, wanted at most 1073741824"),
        "{got}"
    );
}
