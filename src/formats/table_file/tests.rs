//! Tests of table files: files of pyarrow (`tests/golden/embeddings.py`), damaged and forged files.

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Float32Array, Int8Array, Int64Array, LargeStringArray, ListArray, StringArray,
    StringViewArray, new_null_array,
};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use parquet::arrow::ArrowWriter;

use test_data::golden;

use super::*;
use pairloom_base::error::{Error, ErrorCategory};

/// Temporary file with this content, and its folder.
fn file(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    std::fs::write(&path, content).unwrap();
    (folder, path)
}

/// Number of rows of each batch of these columns.
fn count(content: &[u8], names: &[&str]) -> Result<Vec<usize>> {
    let (_folder, path) = file(content);
    TableFile::open(&path)?.batches(names, || Ok(()))?.map(|batch| Ok(batch?.num_rows())).collect()
}

fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
    let error: Error = result.unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Data);
    format!("{error}; {}", error.hint_text().unwrap_or_default())
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Encodes a batch as a Parquet file, an Arrow file and an Arrow stream.
fn written(batch: &RecordBatch) -> [Vec<u8>; 3] {
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

/// A change of any byte of a Parquet file gives an error or other values, never a panic or fewer rows.
#[test]
fn a_changed_byte_never_panics() {
    let mut messages = Vec::new();
    for (name, columns) in &FILES[..2] {
        let content = std::fs::read(golden(name)).unwrap();
        let (_folder, path) = file(&content);
        let damaged = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let rows: usize = count(&content, columns).unwrap().iter().sum();
        for (place, byte) in content.iter().enumerate() {
            damaged.write_all_at(&[!byte], place as u64).unwrap();
            let read = TableFile::open(&path)
                .and_then(|file| file.batches(columns, || Ok(()))?.map(|batch| Ok(batch?.num_rows())).sum());
            match read {
                Ok::<usize, Error>(read) => assert_eq!(read, rows, "{name} {place}"),
                Err(error) => {
                    assert_eq!(error.category(), ErrorCategory::Data, "{name} {place}: {error}");
                    messages.push(error.to_string());
                }
            }
            damaged.write_all_at(&[*byte], place as u64).unwrap();
        }
    }
    assert!(messages.iter().any(|message| message.contains("rows, and its metadata says")));
}

/// The library ends at a message of no kind, without an error.
#[test]
fn a_batch_that_is_no_batch_is_an_error() {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let ids = batch(vec![("id", ids)]);
    let mut writer = FileWriter::try_new(Vec::new(), &ids.schema()).unwrap();
    writer.write(&ids).unwrap();
    writer.write(&ids).unwrap();
    let content = writer.into_inner().unwrap();
    let found = (0..content.len()).any(|place| {
        let mut damaged = content.clone();
        damaged[place] = 0;
        count(&damaged, &["id"]).is_err_and(|error| error.to_string().ends_with("batch 1 is no batch"))
    });
    assert!(found);
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
        "column `part`: is LargeUtf8, expected whole numbers",
        "column `picture`: is UInt16, expected lists of Float16, Float32 or Float64",
        "the file has `picture` (UInt16), `part` (LargeUtf8), `vector` (List(Float64",
        "; name them",
    ] {
        assert!(error_text.contains(part), "{part}: {error_text}");
    }
    assert!(message(file.batches(&["part", "none"], || Ok(())).map(|_| ())).contains("none"));
}

/// A batch has at most 8,192 rows and 32 MiB.
#[test]
fn batches_are_bounded_in_rows_and_values() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
    for content in written(&batch(vec![("id", ids)])) {
        assert_eq!(count(&content, &["id"]).unwrap(), [8192, 1808]);
    }
    // Of a MiB each, so that 32 are a batch.
    let (rows, width) = (50, 1 << 18);
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    let values: ArrayRef = Arc::new(Float32Array::from(vec![0.5; rows * width]));
    let list = ListArray::new(item, OffsetBuffer::from_lengths(vec![width; rows]), values, None);
    for content in written(&batch(vec![("vector", Arc::new(list))])) {
        assert_eq!(count(&content, &["vector"]).unwrap(), [31, 19], "offsets take some bytes");
    }
    // Views of one text.
    let (text, view) = (vec![b'x'; 1 << 20], 1 << 20 | u128::from(u32::from_le_bytes(*b"xxxx")) << 32);
    let texts: ArrayRef = Arc::new(StringViewArray::new(vec![view; rows].into(), vec![Buffer::from(text)], None));
    for content in &written(&batch(vec![("text", texts)]))[1..] {
        assert!(content.len() < 2 << 20);
        assert_eq!(count(content, &["text"]).unwrap(), [32, 18]);
    }
}

/// Dictionaries and views are read as texts.
#[test]
fn texts_of_all_types_are_read() {
    let keys = Int8Array::from(vec![Some(1), None, Some(0)]);
    let long = "a text of more than 12 bytes";
    let dictionary = |values: ArrayRef| -> ArrayRef { Arc::new(DictionaryArray::new(keys.clone(), values)) };
    for column in [
        dictionary(Arc::new(StringArray::from(vec!["a", long]))),
        dictionary(Arc::new(LargeStringArray::from(vec!["a", long]))),
        dictionary(Arc::new(StringViewArray::from(vec!["a", long]))),
        Arc::new(StringViewArray::from(vec![Some(long), None, Some("a")])),
    ] {
        let rows = batch(vec![("text", column)]);
        let mut writer = FileWriter::try_new(Vec::new(), &rows.schema()).unwrap();
        writer.write(&rows).unwrap();
        let (_folder, path) = file(&writer.into_inner().unwrap());
        let table = TableFile::open(&path).unwrap();
        let read: Vec<_> = table.batches(&["text"], || Ok(())).unwrap().collect::<Result<_>>().unwrap();
        let texts = texts(&read[0], "text").unwrap();
        assert_eq!([0, 1, 2].map(|row| texts.get(row)), [Some(long), None, Some("a")]);
    }
}

#[test]
fn nulls_are_distinguished_from_values() {
    let item = Arc::new(Field::new("item", DataType::Float64, true));
    let values = arrow::array::Float64Array::from(vec![Some(1.0), Some(2.0), Some(3.0), None, Some(1e300), Some(6.0)]);
    let nulls = Some(vec![true, false, true, true].into());
    let list = ListArray::new(item, OffsetBuffer::from_lengths([2, 0, 2, 2]), Arc::new(values), nulls);
    let dictionary: DictionaryArray<arrow::datatypes::Int8Type> =
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
                Err("the value of column 0 is 1e300, which is beyond f32, expected at most 3.4028235e38".to_owned()),
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
        assert!(message(vectors(&batch, "id")).contains("column `id` is UInt64, expected lists"));
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
