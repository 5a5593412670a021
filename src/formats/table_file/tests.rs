//! Tests of table files: files of pyarrow (`tests/golden/embeddings.py`), damaged and forged files.

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array, Int64Array, ListArray, StringArray, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use parquet::arrow::ArrowWriter;

use test_data::golden;

use super::*;

/// Temporary file with this content, and its folder.
pub(super) fn file(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    std::fs::write(&path, content).unwrap();
    (folder, path)
}

/// Number of rows of each batch of these columns.
pub(super) fn count(content: &[u8], names: &[&str]) -> Result<Vec<usize>> {
    let (_folder, path) = file(content);
    TableFile::open(&path)?.batches(names, || Ok(()))?.map(|batch| Ok(batch?.num_rows())).collect()
}

pub(super) fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
    let error: Error = result.unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Data);
    format!("{error}; {}", error.hint_text().unwrap_or_default())
}

pub(super) fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Encodes a batch as a Parquet file, an Arrow file and an Arrow stream.
pub(super) fn written(batch: &RecordBatch) -> [Vec<u8>; 3] {
    let schema = batch.schema();
    let mut parquet = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), None).unwrap();
    parquet.write(batch).unwrap();
    let mut file = FileWriter::try_new(Vec::new(), &schema).unwrap();
    file.write(batch).unwrap();
    let mut stream = StreamWriter::try_new(Vec::new(), &schema).unwrap();
    stream.write(batch).unwrap();
    [parquet.into_inner().unwrap(), file.into_inner().unwrap(), stream.into_inner().unwrap()]
}

const FILES: [(&str, [&str; 3]); 4] = [
    ("embeddings_images.parquet", ["image_id", "split", "embedding"]),
    ("embeddings_captions.parquet", ["image_id", "caption_id", "embedding"]),
    ("embeddings_images.feather", ["picture", "part", "vector"]),
    ("embeddings_captions.arrows", ["picture", "part", "vector"]),
];

/// Truncation after any byte is an error, never fewer rows.
#[test]
fn a_truncated_file_is_refused() {
    for (name, columns) in FILES {
        let content = std::fs::read(golden(name)).unwrap();
        let (folder, path) = file(&content);
        let whole: usize = count(&content, &columns).unwrap().iter().sum();
        assert_eq!(whole, if name.contains("images") { 16 } else { 48 });
        for length in (0..content.len()).rev() {
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length as u64).unwrap();
            let read =
                TableFile::open(&path).and_then(|file| file.batches(&columns, || Ok(()))?.collect::<Result<Vec<_>>>());
            let message = message(read);
            assert!(message.contains(&path.display().to_string()), "{name} {length}: {message}");
        }
        drop(folder);
    }
}

/// A mapped file that is cut ends the process (SIGBUS).
#[test]
fn a_file_that_is_cut_while_it_is_read_is_an_error() {
    let values: ArrayRef = Arc::new(Float32Array::from(vec![0.25; 20_000]));
    let values = batch(vec![("value", values)]);
    let (schema, halves) = (values.schema(), [values.slice(0, 10_000), values.slice(10_000, 10_000)]);
    let mut file_writer = FileWriter::try_new(Vec::new(), &schema).unwrap();
    let mut stream_writer = StreamWriter::try_new(Vec::new(), &schema).unwrap();
    for half in &halves {
        file_writer.write(half).unwrap();
        stream_writer.write(half).unwrap();
    }
    for content in [file_writer.into_inner().unwrap(), stream_writer.into_inner().unwrap()] {
        let (_folder, path) = file(&content);
        let table = TableFile::open(&path).unwrap();
        let mut batches = table.batches(&["value"], || Ok(())).unwrap();
        assert_eq!(batches.next().unwrap().unwrap().num_rows(), 8192);
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(45_000).unwrap();
        assert_eq!(batches.next().unwrap().unwrap().num_rows(), 1808, "the rest of the first batch is in memory");
        let message = message(batches.next().unwrap());
        assert!(message.contains(&path.display().to_string()) && message.contains("cut short"), "{message}");
    }
}

/// A change of any byte gives an error or other values, never a panic or unbounded memory.
#[test]
fn a_changed_byte_never_panics() {
    for (name, columns) in FILES {
        let content = std::fs::read(golden(name)).unwrap();
        let (_folder, path) = file(&content);
        let damaged = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        for (place, byte) in content.iter().enumerate() {
            damaged.write_all_at(&[!byte], place as u64).unwrap();
            let read = TableFile::open(&path)
                .and_then(|file| file.batches(&columns, || Ok(()))?.try_for_each(|batch| batch.map(drop)));
            if let Err(error) = read {
                assert_eq!(error.category(), ErrorCategory::Data, "{name} {place}: {error}");
            }
            damaged.write_all_at(&[*byte], place as u64).unwrap();
        }
    }
}

#[test]
fn errors_name_the_format_of_other_files() {
    for (content, wanted) in [
        (&b"\x93NUMPY\x01\x00"[..], "is a NumPy array"),
        (b"FEA1....", "write it with `version=2`"),
        (b"PK\x03\x04....", "numpy.save"),
        (b"\x80\x04\x95....", "pickle, which is never read"),
        (b"image_id,split\n", "is not a Parquet file, an Arrow file or an Arrow stream"),
        (b"", "is not a Parquet file"),
        (b"ARROW1", "cut short"),
        (b"PAR1", "cut short"),
        (b"\xff\xff\xff\xff\xff\xff\xff\x7f", "cut short"),
        (b"PAR1\xff\xff\xff\x7fPAR1", "a"),
    ] {
        let message = message(count(content, &["a"]));
        assert!(message.contains(wanted), "{wanted}: {message}");
    }
    assert!(message(TableFile::open(Path::new("no such file"))).contains("cannot read `no such file`"));
}

#[test]
fn all_missing_and_mistyped_columns_are_reported() {
    let (_folder, path) = file(&std::fs::read(golden("embeddings_images.feather")).unwrap());
    let file = TableFile::open(&path).unwrap();
    assert!(file.has_column("part") && !file.has_column("split"));
    file.check_columns(
        &[("picture", ColumnKind::Integers), ("part", ColumnKind::Texts), ("vector", ColumnKind::Vectors)],
        "",
    )
    .unwrap();
    let wanted = [("split", ColumnKind::Texts), ("part", ColumnKind::Integers), ("picture", ColumnKind::Vectors)];
    let error_text = message(file.check_columns(&wanted, "name them"));
    for part in [
        "column `split`: is not there",
        "column `part`: is LargeUtf8, wanted whole numbers",
        "column `picture`: is UInt16, wanted lists of Float16, Float32 or Float64",
        "the file has `picture` (UInt16), `part` (LargeUtf8), `vector` (List(Float64",
        "; name them",
    ] {
        assert!(error_text.contains(part), "{part}: {error_text}");
    }
    assert!(message(file.batches(&["part", "none"], || Ok(())).map(|_| ())).contains("none"));
}

/// A batch has at most 4 Mi values and 8,192 rows.
#[test]
fn batches_are_bounded_in_rows_and_values() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
    for content in written(&batch(vec![("id", ids)])) {
        assert_eq!(count(&content, &["id"]).unwrap(), [8192, 1808]);
    }
    let (rows, width) = (150, MAX_WIDTH);
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    let values: ArrayRef = Arc::new(Float32Array::from(vec![0.5; rows * width]));
    let list = ListArray::new(item, OffsetBuffer::from_lengths(vec![width; rows]), values, None);
    for content in written(&batch(vec![("vector", Arc::new(list))])) {
        assert_eq!(count(&content, &["vector"]).unwrap(), [64, 64, 22]);
    }
}

/// 131,072 equal values take a few bytes in Parquet, as would a thousand times as many.
#[test]
fn a_huge_row_is_refused() {
    let values: ArrayRef = Arc::new(Float32Array::from(vec![0.5; 2 * MAX_WIDTH]));
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    let list = ListArray::new(item, OffsetBuffer::from_lengths([2 * MAX_WIDTH]), values, None);
    let files = written(&batch(vec![("vector", Arc::new(list))]));
    assert!(files[0].len() < 3000, "{}", files[0].len());
    for (content, name) in files.iter().zip(["vector.list.item", "vector", "vector"]) {
        let message = message(count(content, &["vector"]));
        assert!(message.contains(&format!("a row of `{name}` has 131072 values, wanted at most 65536")), "{message}");
    }
}

/// Compressed buffers begin with their decompressed length, which a forged file can exaggerate.
#[test]
fn a_compressed_batch_that_claims_too_many_bytes_is_refused() {
    let values: ArrayRef = Arc::new(Float32Array::from(vec![0.25; 12_345]));
    let batch = batch(vec![("vector", values)]);
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).unwrap();
    let mut file = FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    file.write(&batch).unwrap();
    let mut content = file.into_inner().unwrap();
    assert_eq!(count(&content, &["vector"]).unwrap(), [8192, 4153]);
    let claim = (4 * 12_345i64).to_le_bytes();
    let place = content.windows(8).position(|window| window == claim).unwrap();
    content[place..place + 8].copy_from_slice(&(1i64 << 60).to_le_bytes());
    let message = message(count(&content, &["vector"]));
    assert!(message.contains("comes to 1152921504606846976 bytes, wanted at most 2147483648"), "{message}");
    assert!(message.contains("without compression"), "{message}");
}

/// An LZ4 frame can hold more than its buffer states, and the library would decompress all of it.
#[test]
fn a_compressed_buffer_that_holds_more_than_it_claims_is_refused() {
    let values: ArrayRef = Arc::new(Float32Array::from(vec![0.25; 4_321_987]));
    let batch = batch(vec![("vector", values)]);
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).unwrap();
    let mut file = FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    file.write(&batch).unwrap();
    let mut content = file.into_inner().unwrap();
    let claim = (4 * 4_321_987i64).to_le_bytes();
    let place = content.windows(8).position(|window| window == claim).unwrap();
    content[place..place + 8].copy_from_slice(&4i64.to_le_bytes());
    let message = message(count(&content, &["vector"]));
    assert!(message.contains("a compressed buffer has room for 20971520 bytes, and claims to have 4;"), "{message}");
}

#[test]
fn nulls_are_distinguished_from_values() {
    let item = Arc::new(Field::new("item", DataType::Float64, true));
    let values = arrow::array::Float64Array::from(vec![Some(1.0), Some(2.0), Some(3.0), None, Some(1e300), Some(6.0)]);
    let nulls = Some(vec![true, false, true, true].into());
    let list = ListArray::new(item, OffsetBuffer::from_lengths([2, 0, 2, 2]), Arc::new(values), nulls);
    let dictionary: arrow::array::DictionaryArray<arrow::datatypes::Int8Type> =
        [Some("test"), None, Some("val"), Some("test")].into_iter().collect();
    let none = new_null_array(&DataType::Utf8, 4);
    let ids = arrow::array::UInt64Array::from(vec![Some(3), None, Some(u64::MAX), Some(1 << 62)]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("vector", Arc::new(list)),
        ("split", Arc::new(dictionary)),
        ("none", none),
        ("id", Arc::new(ids)),
        ("text", Arc::new(StringArray::from(vec!["a", "b", "c", "d"]))),
    ];
    for content in written(&batch(columns)) {
        let (_folder, path) = file(&content);
        let table = TableFile::open(&path).unwrap();
        let batch = table.batches(&["id", "none", "split", "vector"], || Ok(())).unwrap().next().unwrap().unwrap();
        // A slice: rows before it must not shift those that are read.
        for (batch, first) in [(batch.clone(), 0), (batch.slice(1, 3), 1)] {
            let vectors = vectors(&batch, "vector").unwrap();
            let wanted: [Result<&[f32], String>; 4] = [
                Ok(&[1.0, 2.0]),
                Err("the vector is missing".to_owned()),
                Err("the value of column 1 is missing".to_owned()),
                Err("the value of column 0 is 1e300, which is beyond f32, wanted at most 3.4028235e38".to_owned()),
            ];
            let got: Vec<_> = (0..batch.num_rows()).map(|row| vectors.get(row)).collect();
            assert_eq!(got, wanted[first..]);
            let splits = texts(&batch, "split").unwrap();
            let got: Vec<_> = (0..batch.num_rows()).map(|row| splits.get(row)).collect();
            assert_eq!(got, [Some("test"), None, Some("val"), Some("test")][first..]);
            assert_eq!(texts(&batch, "none").unwrap().get(0), None);
            let ids = integers(&batch, "id").unwrap();
            assert_eq!(ids.iter().collect::<Vec<_>>(), [Some(3), None, None, Some(1 << 62)][first..]);
        }
        assert!(message(vectors(&batch, "id")).contains("column `id` is UInt64, wanted lists"));
        assert!(message(texts(&batch, "text")).contains("no column `text`"));
    }
}

/// The reader would end at the first end, and take the first of two columns.
#[test]
fn streams_with_more_after_their_end_and_repeated_columns_are_refused() {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let [_, _, stream] = written(&batch(vec![("id", Arc::clone(&ids))]));
    assert_eq!(count(&stream, &["id"]).unwrap(), [2]);
    let got = message(count(&[&stream[..], &stream].concat(), &["id"]));
    assert!(got.contains(&format!("{} bytes follow the end of the Arrow stream at byte", stream.len())), "{got}");
    for content in written(&batch(vec![("id", Arc::clone(&ids)), ("id", Arc::clone(&ids)), ("other", ids)])) {
        let (_folder, path) = file(&content);
        let table = TableFile::open(&path).unwrap();
        assert!(table.check_columns(&[("other", ColumnKind::Integers)], "").is_ok());
        let got = message(table.check_columns(&[("id", ColumnKind::Integers)], ""));
        assert!(got.contains("column `id`: is there several times: rename all but one"), "{got}");
    }
}
