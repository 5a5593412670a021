//! Tests of the checks: files of the Parquet library, whose sizes are known, and forged files.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, ListArray, RecordBatch, StringArray, StringViewBuilder};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Float32Type};
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;

use super::forged::{
    ForgedColumn, ForgedPage, ThriftWriter, constant_lengths, file, file_of_bytes, nested, run, wide, without_rows,
};
use super::{ArrowColumn, ChunkSizes, check_chunk, check_file};
use crate::table_file::TableFile;
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_storage::pread::PreadFile;

/// Numbers of codecs in the format.
const PLAIN: i64 = 0;
const GZIP: i64 = 2;
const BROTLI: i64 = 4;
const LZ4: i64 = 5;

/// Numbers of encodings.
const DICTIONARY_INDICES: i64 = 8;
const SHARED_STARTS: i64 = 7;

pub(super) fn stored(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    std::fs::write(&path, content).unwrap();
    (folder, path)
}

/// Sizes of each column of the first row group.
pub(super) fn sizes(content: &[u8]) -> Result<Vec<ChunkSizes>> {
    let (_folder, path) = stored(content);
    let file = PreadFile::open(&path)?;
    check_file(&file, &|| Ok(()))?;
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
    let group = metadata.row_group(0);
    group
        .columns()
        .iter()
        .map(|column| check_chunk(&file, column, group.num_rows(), ArrowColumn::default(), &|| Ok(())))
        .collect()
}

/// Numbers of rows of the batches of a column.
fn batches(content: &[u8], column: &str) -> Result<Vec<usize>> {
    let (_folder, path) = stored(content);
    let table = TableFile::open(&path)?;
    table.batches(&[column], || Ok(()))?.map(|batch| Ok(batch?.num_rows())).collect()
}

pub(super) fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
    let error: Error = result.unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Data, "{error}");
    error.to_string()
}

#[test]
fn sizes_are_those_of_the_values_for_each_encoding_codec_and_version() {
    let texts: Vec<String> = (0..10_000).map(|i| "é".repeat(if i == 7_777 { 500 } else { i % 13 })).collect();
    let lists = (0..10_000).map(|i| match i % 11 {
        0 => None,
        _ if i == 9_000 => Some(vec![Some(0.5f32); 700]),
        length => Some(vec![Some(1.0); length - 1]),
    });
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("text", Arc::new(StringArray::from(texts))),
        ("vector", Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(lists))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ];
    let encodings =
        [None, Some(Encoding::PLAIN), Some(Encoding::DELTA_LENGTH_BYTE_ARRAY), Some(Encoding::DELTA_BYTE_ARRAY)];
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for (codec, encoding) in codecs
            .into_iter()
            .map(|codec| (codec, None))
            .chain(encodings.into_iter().map(|encoding| (Compression::UNCOMPRESSED, encoding)))
        {
            let properties = WriterProperties::builder().set_writer_version(version).set_compression(codec);
            let properties = match encoding {
                Some(encoding) => {
                    let properties = properties.set_dictionary_enabled(false);
                    properties.set_column_encoding("text".into(), encoding)
                }
                None => properties,
            };
            let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).unwrap();
            writer.write(&batch).unwrap();
            let content = writer.into_inner().unwrap();
            let sizes = sizes(&content).unwrap();
            let what = format!("{version:?} {codec:?} {encoding:?}: {sizes:?}");
            assert_eq!((sizes[0].longest_row, sizes[1].longest_row), (1, 700), "{what}");
            // The parts of a text with a shared start are counted apart.
            let limit = if encoding == Some(Encoding::DELTA_BYTE_ARRAY) { 2_000 } else { 1_000 };
            assert!((1_000..=limit).contains(&sizes[0].longest_text), "{what}");
            // 8,192 lists with 4.1 values in the mean, missing and empty lists counted as one.
            assert!((8_192 * 8..8_192 * 8 * 6).contains(&sizes[1].largest_batch), "{what}");
            assert_eq!(batches(&content, "vector").unwrap(), [5_991, 4_009], "{what}");
        }
    }
}

/// A page of 64 MiB that claims to have ten bytes.
#[test]
fn pages_that_hold_more_than_they_claim_are_refused() {
    let zeros = vec![0; 64 << 20];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&zeros).unwrap();
    let mut packed = brotli::CompressorWriter::new(Vec::new(), 1 << 16, 1, 22);
    packed.write_all(&zeros).unwrap();
    // A frame of two blocks, 4 MiB each at most, and a frame that is cut.
    let frame = [&[0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73][..], &[1, 0, 0, 0, 9], &[1, 0, 0, 0, 9], &[0; 4]].concat();
    let cut = frame[..frame.len() - 4].to_vec();
    for (codec, stored) in [(GZIP, gzip.finish().unwrap()), (BROTLI, packed.into_inner()), (LZ4, frame), (LZ4, cut)] {
        let page = ForgedPage { values: 1, claimed: 10, encoding: Some(0), stored };
        let content = file(ForgedColumn::Texts, codec, 1, 1, &[page]);
        let wanted = "a page of `text` holds more than the 10 bytes that it claims to have";
        for got in [message(batches(&content, "text")), message(sizes(&content))] {
            assert!(got.contains(wanted), "{codec}: {got}");
        }
    }
}

/// 100,000 rows of the one text of a dictionary: 100 GB in a batch of the library, from a megabyte.
#[test]
fn texts_of_a_dictionary_are_expanded_in_small_batches() {
    let text = vec![b'x'; 1 << 20];
    let dictionary = [&(1u32 << 20).to_le_bytes()[..], &text].concat();
    let pages = |rows: u64| {
        let claimed = dictionary.len().try_into().unwrap();
        let dictionary = ForgedPage { values: 1, claimed, encoding: None, stored: dictionary.clone() };
        let stored = [vec![1], run(0, rows)].concat();
        let (values, claimed) = (rows.cast_signed(), stored.len().try_into().unwrap());
        [dictionary, ForgedPage { values, claimed, encoding: Some(DICTIONARY_INDICES), stored }]
    };
    let content = file(ForgedColumn::Texts, PLAIN, 600, 600, &pages(600));
    assert_eq!(batches(&content, "text").unwrap(), [256, 256, 88]);
    let content = file(ForgedColumn::Texts, PLAIN, 100_000, 100_000, &pages(100_000));
    let got = message(batches(&content, "text"));
    assert!(got.contains("bytes without compression, which is too many for its size"), "{got}");
    // A batch of a query would have 8,192 of them.
    let got = message(sizes(&content));
    assert!(got.contains("8192 rows of `text` come to 8589934592 bytes, wanted at most"), "{got}");
}

/// 120 million rows in three runs of a hundred bytes.
#[test]
fn more_rows_than_fit_the_size_of_a_file_are_refused() {
    let stored = [vec![1], run(0, 40_000_000)].concat();
    let page = || ForgedPage {
        values: 40_000_000,
        claimed: stored.len().try_into().unwrap(),
        encoding: Some(DICTIONARY_INDICES),
        stored: stored.clone(),
    };
    let dictionary = || ForgedPage { values: 1, claimed: 5, encoding: None, stored: b"\x01\0\0\0x".to_vec() };
    let pages = |rows| file(ForgedColumn::Texts, PLAIN, rows, rows, &[dictionary(), page(), page(), page()]);
    let got = [message(sizes(&pages(120_000_000))), message(batches(&pages(120_000_000), "text"))];
    for got in got {
        assert!(got.contains("it has more than 100000000 rows, which is too many for its size"), "{got}");
    }
    // A false number of rows is no way around.
    assert!(message(sizes(&pages(1))).contains("`text` has 120000000 rows, and the metadata of the file says 1"));
}

/// 2,400 texts of a MiB in lists, which a batch of a query would have, from little more than a MiB.
#[test]
fn texts_of_a_dictionary_in_lists_are_counted() {
    let text = "x".repeat(1 << 20);
    let mut texts = StringViewBuilder::new().with_fixed_block_size(4 << 20).with_deduplicate_strings();
    (0..2_400).for_each(|_| texts.append_value(&text));
    let item = Arc::new(Field::new("item", DataType::Utf8View, true));
    let texts = ListArray::new(item, OffsetBuffer::from_lengths([800; 3]), Arc::new(texts.finish()), None);
    let column: ArrayRef = Arc::new(texts);
    let batch = RecordBatch::try_from_iter([("texts", column)]).unwrap();
    let properties = WriterProperties::builder().set_dictionary_page_size_limit(4 << 20).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    let content = writer.into_inner().unwrap();
    assert!(content.len() < 2 << 20, "{}", content.len());
    let got = message(sizes(&content));
    assert!(got.contains("3 rows of `texts.list.item` come to 2516582400 bytes, wanted at most"), "{got}");
    // Two rows are 1.7 GB.
    let hint = sizes(&content).unwrap_err().hint_text().map(str::to_owned);
    assert_eq!(hint.as_deref(), Some("write the file with row groups of fewer than 3 rows"));
    let got = message(batches(&content, "texts"));
    assert!(got.contains("a row of `texts.list.item` has 838860800 bytes, wanted at most 536870912"), "{got}");
}

#[test]
fn texts_that_share_their_start_are_counted_whole() {
    // The first text has all bytes, and each of the others shares them.
    let count = 1u64 << 20;
    let shared = constant_lengths(100_000, count);
    let own = constant_lengths(0, count);
    let stored = [shared, own].concat();
    let page = ForgedPage {
        values: count.cast_signed(),
        claimed: stored.len().try_into().unwrap(),
        encoding: Some(SHARED_STARTS),
        stored,
    };
    let rows = count.cast_signed();
    let content = file(ForgedColumn::Texts, PLAIN, rows, rows, &[page]);
    assert!(content.len() < 1_000);
    let got = message(sizes(&content));
    assert!(got.contains("8192 rows of `text` come to 104857600000 bytes, wanted at most"), "{got}");
}

/// A row of many values among rows of few, from a hundred bytes; the mean says nothing.
#[test]
fn one_long_row_among_short_ones_is_refused() {
    let (rows, long) = (10_000u64, 50u64 << 20);
    let values = rows + long;
    let with_length = |levels: Vec<u8>| [&u32::try_from(levels.len()).unwrap().to_le_bytes()[..], &levels].concat();
    let repetition = with_length([run(0, rows), run(1, long)].concat());
    let definition = with_length(run(1, values));
    let dictionary = ForgedPage { values: 1, claimed: 4, encoding: None, stored: vec![0; 4] };
    let stored = [repetition, definition, vec![1], run(0, values)].concat();
    let page = ForgedPage {
        values: values.cast_signed(),
        claimed: stored.len().try_into().unwrap(),
        encoding: Some(DICTIONARY_INDICES),
        stored,
    };
    let content = file(ForgedColumn::Vectors, PLAIN, rows.cast_signed(), values.cast_signed(), &[dictionary, page]);
    let got = message(batches(&content, "vector"));
    assert!(got.contains("a row of `vector.list.item` has 52428801 values, wanted at most 65536"), "{got}");
    assert_eq!(sizes(&content).unwrap()[0].longest_row, 52_428_801);
}

#[test]
fn pages_that_claim_too_much_are_refused() {
    let page = |values, claimed| ForgedPage { values, claimed, encoding: Some(0), stored: vec![0; 4] };
    for (page, wanted) in [
        (page(1, 1 << 30), "has 1073741824 bytes, wanted at most 536870912"),
        (page(1 << 30, 4), "has 1073741824 values, wanted at most 67108864"),
    ] {
        let content = file(ForgedColumn::Texts, PLAIN, 1, 1, &[page]);
        let got = message(batches(&content, "text"));
        assert!(got.contains(wanted), "{got}");
    }
}

/// A missing value takes as much memory as one that is there, and a dictionary repeats one in a few bytes.
#[test]
fn values_of_a_large_fixed_size_are_refused() {
    let page = || ForgedPage { values: 1, claimed: 4, encoding: Some(0), stored: vec![7; 4] };
    assert_eq!(sizes(&file(ForgedColumn::Fixed(4), PLAIN, 1, 1, &[page()])).unwrap()[0].largest_batch, 4);
    let many = || ForgedPage { values: 10_000, ..page() };
    let got = message(sizes(&file(ForgedColumn::Fixed(1_000_000), PLAIN, 10_000, 10_000, &[many()])));
    assert!(got.contains("8192 rows of `text` come to 8192000000 bytes, wanted at most 2147483648"), "{got}");
    let got = message(sizes(&file(ForgedColumn::Fixed(0), PLAIN, 1, 1, &[page()])));
    assert!(got.contains("cut short or damaged"), "{got}");
}

#[test]
fn other_numbers_of_rows_than_those_of_the_pages_are_refused() {
    let text = ForgedPage { values: 1, claimed: 5, encoding: Some(0), stored: vec![1, 0, 0, 0, b'a'] };
    let number = ForgedPage { values: 1, claimed: 4, encoding: Some(0), stored: vec![7; 4] };
    for (column, page) in [(ForgedColumn::Texts, text), (ForgedColumn::Fixed(4), number)] {
        let content = file(column, PLAIN, 1 << 62, 1, &[page]);
        let wanted = "`text` has 1 rows, and the metadata of the file says 4611686018427387904";
        for got in [message(batches(&content, "text")), message(sizes(&content))] {
            assert!(got.contains(wanted), "{got}");
        }
    }
}

/// Each row group would be decompressed anew.
#[test]
fn columns_in_the_same_place_are_refused() {
    let header = ThriftWriter::default().integer(1, 0).integer(2, 5).integer(3, 5);
    let values = ThriftWriter::default().integer(1, 1).integer(2, 0).integer(3, 3).integer(4, 3);
    let pages = [&header.nested(5, values).end()[..], &[1, 0, 0, 0, b'a']].concat();
    let groups = |groups| file_of_bytes(ForgedColumn::Texts, PLAIN, [1, 1, 5], &pages, 0, groups);
    assert_eq!(sizes(&groups(1)).unwrap().len(), 1);
    let got = message(sizes(&groups(2)));
    assert!(got.contains("two of its columns are in the same place"), "{got}");
}

/// The library copies the path of each column, and its time grows with the square of their number.
#[test]
fn many_columns_and_long_paths_are_refused() {
    for (content, wanted) in [
        (wide(20_001, 1), "it has more than 20000 columns"),
        (wide(1_000, 20_000), "the names of its columns, with their groups, have more than 16777216 bytes"),
    ] {
        let (_folder, path) = stored(&content);
        for got in [
            message(TableFile::open(&path).map(drop)),
            message(PreadFile::open(&path).and_then(|file| check_file(&file, &|| Ok(())))),
        ] {
            assert!(got.contains(wanted), "{got}");
        }
    }
    let (_folder, path) = stored(&wide(1_000, 1_000));
    assert!(TableFile::open(&path).unwrap().has_column(&"g".repeat(1_000)));
}

/// The library makes texts of JSON without a look at their bytes.
#[test]
fn texts_that_are_no_utf8_are_refused() {
    for (bytes, is_sound) in [("{}".as_bytes(), true), (&[0xff, 0xfe], false)] {
        let texts = BinaryArray::from_vec(vec![bytes, b"1"]);
        let json = parquet::schema::parser::parse_message_type("message m { required binary text (JSON); }").unwrap();
        for is_dictionary in [true, false] {
            let properties = WriterProperties::builder().set_dictionary_enabled(is_dictionary).build();
            let mut writer =
                SerializedFileWriter::new(Vec::new(), Arc::new(json.clone()), Arc::new(properties)).unwrap();
            let mut group = writer.next_row_group().unwrap();
            let mut column = group.next_column().unwrap().unwrap();
            let values: Vec<ByteArray> = texts.iter().flatten().map(|text| ByteArray::from(text.to_vec())).collect();
            column.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
            column.close().unwrap();
            group.close().unwrap();
            let content = writer.into_inner().unwrap();
            assert_eq!(batches(&content, "text").is_ok(), is_sound, "{is_dictionary} {bytes:?}");
            let (_folder, path) = stored(&content);
            assert_eq!(check_file(&PreadFile::open(&path).unwrap(), &|| Ok(())).is_ok(), is_sound, "{is_dictionary}");
        }
    }
}

#[test]
fn encrypted_files_are_named() {
    let mut content = without_rows(|metadata| metadata);
    let end = content.len();
    content[end - 4..].copy_from_slice(b"PARE");
    let keys = ThriftWriter::default().nested(1, ThriftWriter::default());
    for content in [content, without_rows(|metadata| metadata.nested(8, keys))] {
        let (_folder, path) = stored(&content);
        let got = message(TableFile::open(&path).map(drop));
        assert!(got.contains("the file is encrypted"), "{got}");
    }
}

/// The library walks the schema by recursion, and ends the process for want of stack.
#[test]
fn deeply_nested_schemas_are_refused() {
    for depth in [200, 20_000] {
        let (_folder, path) = stored(&nested(depth));
        for got in [
            message(TableFile::open(&path).map(drop)),
            message(PreadFile::open(&path).and_then(|file| check_file(&file, &|| Ok(())))),
        ] {
            assert!(got.contains("nested more than 100 levels deep"), "{got}");
        }
    }
    let (_folder, path) = stored(&nested(50));
    assert!(TableFile::open(&path).unwrap().has_column("g"));
}

/// Codes of types.
const NUMBER: u8 = 6;
const LIST: u8 = 9;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
/// List and map of 2³¹ - 1 booleans: the library takes no byte for any of them.
const BOOLEANS: &[u8] = &[0xf1, 0xff, 0xff, 0xff, 0xff, 0x07];
const PAIRS_OF_BOOLEANS: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0x07, 0x11];

/// File of the text `a`, with this header of its page.
fn with_header(header: ThriftWriter) -> Vec<u8> {
    let pages = [&header.end()[..], &[1, 0, 0, 0, b'a']].concat();
    file_of_bytes(ForgedColumn::Texts, PLAIN, [1, 1, 5], &pages, 0, 1)
}

/// The library reads a field by its number alone, and skips what it does not know; so it would read other bytes as
/// headers than those that were checked, or skip without an end.
#[test]
fn headers_that_the_library_reads_otherwise_are_refused() {
    let start = || ThriftWriter::default().integer(1, 0).integer(2, 5).integer(3, 5);
    let values = || ThriftWriter::default().integer(1, 1).integer(2, 0).integer(3, 3).integer(4, 3);
    let of_version_2 = || values().integer(5, 0).integer(6, 0);
    let sound = [
        start().nested(5, values()),
        start().integer(4, 77).nested(5, values()),
        // Fields of a later version of the format: a number, a list of numbers, and a struct.
        start().nested(5, values().raw(9, NUMBER, &[2])).raw(9, LIST, &[0x25, 2, 4]).raw(11, STRUCT, &[0x15, 2, 0]),
    ];
    for header in sound {
        let what = format!("{:?}", header.content);
        assert_eq!(batches(&with_header(header), "text").unwrap(), [1], "{what}");
    }
    let refused = [
        ("booleans that take no byte", start().nested(5, values()).raw(9, LIST, BOOLEANS)),
        ("the same within a header", start().nested(5, values().raw(6, LIST, BOOLEANS))),
        ("the same in a list", start().nested(5, values()).raw(9, LIST, &[&[0x19][..], BOOLEANS].concat())),
        ("pairs of them", start().nested(5, values()).raw(9, MAP, PAIRS_OF_BOOLEANS)),
        ("a checksum that is a struct", start().raw(4, STRUCT, &[0]).nested(5, values())),
        ("statistics that are a list", start().nested(5, values().raw(5, LIST, &[0x25, 2, 4]))),
        ("an encoding that is a byte", start().nested(5, ThriftWriter::default().integer(1, 1).raw(2, 3, &[0]))),
        ("an end that is no zero", start().nested(5, values()).raw(9, 0, &[])),
        ("a field a second time", start().raw(3, 0x05, &[6, 10]).nested(5, values())),
        ("a number of more than 16 bits", start().nested(5, values()).raw(5, 0x05, &[0x86, 0x80, 0x08, 10])),
        ("a size of more than 32 bits", {
            ThriftWriter::default().integer(1, 0).integer(2, 5).integer(3, (1 << 32) + 5).nested(5, values())
        }),
        ("a header of another type of page", start().nested(7, ThriftWriter::default().integer(1, 1).integer(2, 0))),
        ("two headers", start().nested(5, values()).nested(8, of_version_2())),
        ("a page of an index", {
            ThriftWriter::default().integer(1, 1).integer(2, 5).integer(3, 5).nested(6, ThriftWriter::default())
        }),
    ];
    for (what, header) in refused {
        let content = with_header(header);
        for got in [message(batches(&content, "text")), message(sizes(&content))] {
            assert!(got.contains("the pages of `text` are cut short or damaged"), "{what}: {got}");
        }
    }
}

#[test]
fn metadata_that_the_library_reads_otherwise_is_refused() {
    let opened = |content: &[u8]| {
        let (_folder, path) = stored(content);
        TableFile::open(&path).map(|table| table.has_column("text"))
    };
    assert!(opened(&without_rows(|metadata| metadata)).unwrap());
    // A field of a later version.
    assert!(opened(&without_rows(|metadata| metadata.raw(10, LIST, &[0x25, 2, 4]))).unwrap());
    let many = [&[0xfc, 0x81, 0x80, 0x40][..], &vec![0; (1 << 20) + 1]].concat();
    let refused = [
        ("booleans that take no byte", without_rows(|metadata| metadata.raw(10, LIST, BOOLEANS))),
        ("pairs of them", without_rows(|metadata| metadata.raw(10, MAP, PAIRS_OF_BOOLEANS))),
        ("texts with a key that are numbers", without_rows(|metadata| metadata.raw(5, LIST, &[0x25, 2, 4]))),
        ("a program that is a number", without_rows(|metadata| metadata.raw(6, NUMBER, &[2]))),
        ("a million texts with a key", without_rows(|metadata| metadata.raw(5, LIST, &many))),
    ];
    for (what, content) in refused {
        let got = message(opened(&content));
        assert!(got.contains("the file is cut short or damaged"), "{what}: {got}");
    }
    let long =
        without_rows(|metadata| metadata.raw(6, 8, &[&[0x80, 0x80, 0x80, 0x20][..], &vec![b'x'; 64 << 20]].concat()));
    let got = message(opened(&long));
    assert!(got.contains("its metadata has 67108902 bytes, wanted at most 67108864"), "{got}");
}

#[test]
fn reading_ends_with_a_failed_check() {
    let page = |stored: Vec<u8>| ForgedPage { values: 1, claimed: 5, encoding: Some(0), stored };
    let content = file(ForgedColumn::Texts, PLAIN, 2, 2, &[page(vec![1, 0, 0, 0, b'a']), page(vec![1, 0, 0, 0, b'b'])]);
    assert_eq!(batches(&content, "text").unwrap(), [2]);
    let (_folder, path) = stored(&content);
    let table = TableFile::open(&path).unwrap();
    let mut stopped = table.batches(&["text"], || Err(Error::interrupted())).unwrap();
    assert_eq!(stopped.next().unwrap().unwrap_err().category(), ErrorCategory::Interrupted);
    assert!(stopped.next().is_none());
    // Between two batches too, whose pages were all read before the first.
    let many: ArrayRef = Arc::new(StringArray::from_iter_values((0..100_000).map(|i| i.to_string())));
    let batch = RecordBatch::try_from_iter([("text", many)]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    let (_folder, path) = stored(&writer.into_inner().unwrap());
    let (table, is_stopped) = (TableFile::open(&path).unwrap(), std::cell::Cell::new(false));
    let check = || if is_stopped.get() { Err(Error::interrupted()) } else { Ok(()) };
    let mut rows = table.batches(&["text"], check).unwrap();
    assert!(rows.next().unwrap().unwrap().num_rows() < 50_000);
    is_stopped.set(true);
    assert_eq!(rows.next().unwrap().unwrap_err().category(), ErrorCategory::Interrupted);
    assert!(rows.next().is_none());
}

#[test]
fn a_file_that_is_cut_while_it_is_open_is_an_error() {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..100_000).map(|i| i.to_string())));
    let batch = RecordBatch::try_from_iter([("text", texts)]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    let (_folder, path) = stored(&writer.into_inner().unwrap());
    let table = TableFile::open(&path).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(5_000).unwrap();
    let read: Result<Vec<_>> = table.batches(&["text"], || Ok(())).unwrap().collect();
    assert!(message(read).contains("a.parquet"));
}
