//! Tests of Arrow files that are made to fill the memory or to take for ever.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, DictionaryArray, Int8Array, Int64Array, LargeStringArray, ListArray,
    NullArray, StringViewArray, StructArray,
};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow::ipc::{
    Block, CompressionType, FieldArgs, Footer, Int, IntArgs, Message, MessageArgs, MessageHeader, Schema, SchemaArgs,
    Struct_, Struct_Args, Type, root_as_footer, root_as_message,
};
use base64::Engine as _;
use flatbuffers::FlatBufferBuilder;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::tests::{batch, count, file, message};
use super::*;

/// Views of `rows` values that share `text`.
fn views(text: &[u8], rows: usize) -> (ScalarBuffer<u128>, Vec<Buffer>) {
    let start: [u8; 4] = std::array::from_fn(|place| text[place]);
    let view = u128::from(u32::try_from(text.len()).unwrap()) | u128::from(u32::from_le_bytes(start)) << 32;
    (vec![view; rows].into(), vec![Buffer::from(text)])
}

/// Conversion would copy the text of each row: 600 MiB from one.
#[test]
fn texts_that_views_share_are_read_in_small_batches() {
    let (values, buffers) = views(&vec![b'x'; 1 << 20], 600);
    let texts: ArrayRef = Arc::new(StringViewArray::new(values.clone(), buffers.clone(), None));
    let pictures: ArrayRef = Arc::new(BinaryViewArray::new(values, buffers, None));
    let field = |name: &str, column: &ArrayRef| Arc::new(Field::new(name, column.data_type().clone(), false));
    let pair = StructArray::new(
        Fields::from(vec![field("bytes", &pictures), field("path", &texts)]),
        vec![Arc::clone(&pictures), Arc::clone(&texts)],
        None,
    );
    // 512 texts of a MiB fit into a row.
    let lists = |row: usize| {
        let item = field("item", &texts);
        let rest = [row, 600 - row];
        ListArray::new(item, OffsetBuffer::from_lengths(rest), Arc::clone(&texts), None)
    };
    let columns: Vec<(&str, ArrayRef)> =
        vec![("text", Arc::clone(&texts)), ("picture", pictures), ("pair", Arc::new(pair))];
    let [content, _] = written_without_parquet(&batch(columns));
    assert!(content.len() < 5 << 20);
    assert_eq!(count(&content, &["text"]).unwrap(), [256, 256, 88]);
    assert_eq!(count(&content, &["picture"]).unwrap(), [256, 256, 88]);
    assert_eq!(count(&content, &["pair"]).unwrap(), [128, 128, 128, 128, 88]);
    let [content, _] = written_without_parquet(&batch(vec![("list", Arc::new(lists(512)))]));
    assert_eq!(count(&content, &["list"]).unwrap(), [1, 1]);
    let [content, _] = written_without_parquet(&batch(vec![("list", Arc::new(lists(513)))]));
    let message = message(count(&content, &["list"]));
    assert!(message.contains("a row of `list` has 537919488 bytes, wanted at most 536870912"), "{message}");
}

#[test]
fn texts_of_more_than_16_mib_or_of_too_many_bytes_together_are_refused() {
    for (bytes, rows, wanted) in [
        (1 << 24, 1, None),
        ((1 << 24) + 1, 1, Some("a text of `text` has 16777217 bytes, wanted at most 16777216")),
        // 1,024 rows of 16 MiB are 16 GiB. A file of 16.8 MB may give 1,000 times its size.
        (1 << 24, 1_003, None),
        (1 << 24, 1_030, Some("bytes without compression, which is too many for its size")),
    ] {
        let (values, buffers) = views(&vec![b'x'; bytes], rows);
        let texts: ArrayRef = Arc::new(StringViewArray::new(values, buffers, None));
        let [_, content] = written_without_parquet(&batch(vec![("text", texts)]));
        match (count(&content, &["text"]), wanted) {
            (Ok(got), None) => assert_eq!(got.iter().sum::<usize>(), rows),
            (got, wanted) => {
                let message = message(got);
                assert!(message.contains(wanted.unwrap()), "{message}");
            }
        }
    }
}

/// A million views of one text of 16 MiB. The library would look at 16 TB when it decodes the batch.
#[test]
fn texts_of_views_are_not_looked_at_before_they_are_counted() {
    let (values, buffers) = views(&vec![b'x'; 1 << 24], 1_000_000);
    let bytes: ArrayRef = Arc::new(BinaryViewArray::new(values, buffers, None));
    let text: ArrayRef = Arc::new(StringViewArray::from_iter_values(["x"]));
    let [_, bytes] = written_without_parquet(&batch(vec![("text", bytes)]));
    let [_, text] = written_without_parquet(&batch(vec![("text", text)]));
    let content = [messages(&text)[0], messages(&bytes)[1], &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]].concat();
    let message = message(count(&content, &["text"]));
    assert!(message.contains("bytes without compression, which is too many for its size"), "{message}");
}

/// A column without values takes no bytes, however many rows it has.
#[test]
fn more_rows_than_fit_the_size_of_a_file_are_refused() {
    let rows = |rows: usize| written_without_parquet(&batch(vec![("none", Arc::new(NullArray::new(rows)))]));
    for content in rows(1_000_000) {
        assert_eq!(count(&content, &["none"]).unwrap().iter().sum::<usize>(), 1_000_000);
    }
    for content in rows(100_000_001) {
        let message = message(count(&content, &["none"]));
        assert!(message.contains("it has more than 100000000 rows, which is too many for its size"), "{message}");
    }
}

/// Encodes a batch as an Arrow file and an Arrow stream.
fn written_without_parquet(batch: &RecordBatch) -> [Vec<u8>; 2] {
    let mut file = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    file.write(batch).unwrap();
    let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    stream.write(batch).unwrap();
    [file.into_inner().unwrap(), stream.into_inner().unwrap()]
}

/// Message with the schema of `columns` structs of `fields` numbers, all of which are the same table.
fn shared_schema(columns: usize, fields: usize) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let name = builder.create_string("x");
    let number = Int::create(&mut builder, &IntArgs { bitWidth: 64, is_signed: true }).as_union_value();
    let none = builder.create_vector::<flatbuffers::ForwardsUOffset<arrow::ipc::Field<'_>>>(&[]);
    let leaf = arrow::ipc::Field::create(
        &mut builder,
        &FieldArgs {
            name: Some(name),
            type_type: Type::Int,
            type_: Some(number),
            children: Some(none),
            ..FieldArgs::default()
        },
    );
    let children = builder.create_vector(&vec![leaf; fields]);
    let group = Struct_::create(&mut builder, &Struct_Args {}).as_union_value();
    let column = arrow::ipc::Field::create(
        &mut builder,
        &FieldArgs {
            name: Some(name),
            type_type: Type::Struct_,
            type_: Some(group),
            children: Some(children),
            ..FieldArgs::default()
        },
    );
    let fields = Some(builder.create_vector(&vec![column; columns]));
    let schema = Schema::create(&mut builder, &SchemaArgs { fields, ..SchemaArgs::default() }).as_union_value();
    let args = MessageArgs {
        version: arrow::ipc::MetadataVersion::V5,
        header_type: MessageHeader::Schema,
        header: Some(schema),
        ..MessageArgs::default()
    };
    let message = Message::create(&mut builder, &args);
    builder.finish(message, None);
    let mut content = builder.finished_data().to_vec();
    content.resize(content.len().next_multiple_of(8), 0);
    content
}

/// 600 columns of 600 fields in 5 KB, also in the metadata of a Parquet file.
#[test]
fn schemas_whose_fields_share_a_table_are_refused() {
    let stream = |schema: &[u8]| {
        let length = u32::try_from(schema.len()).unwrap().to_le_bytes();
        [&[0xff; 4], &length[..], schema, &[0xff; 4], &[0; 4]].concat()
    };
    let small = stream(&shared_schema(30, 30));
    let (_folder, path) = file(&small);
    assert!(TableFile::open(&path).unwrap().has_column("x"));
    let large = shared_schema(600, 600);
    assert!(large.len() < 6_000, "{}", large.len());
    let (_folder, path) = file(&stream(&large));
    let error_text = message(TableFile::open(&path));
    assert!(error_text.contains("a message of the Arrow format has more than 200000 fields and types"), "{error_text}");

    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let ids = batch(vec![("id", ids)]);
    let schema = base64::prelude::BASE64_STANDARD.encode(&large);
    let entry = KeyValue::new("ARROW:schema".to_owned(), schema);
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![entry])).build();
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let mut parquet = ArrowWriter::try_new_with_options(Vec::new(), ids.schema(), options).unwrap();
    parquet.write(&ids).unwrap();
    let content = parquet.into_inner().unwrap();
    let error_text = message(count(&content, &["id"]));
    assert!(error_text.contains("has more than 200000 fields and types"), "{error_text}");
    let (_folder, path) = file(&content);
    let file = PreadFile::open(&path).unwrap();
    let error_text = message(crate::parquet_check::check_file(&file, &|| Ok(())));
    assert!(error_text.contains("has more than 200000 fields and types"), "{error_text}");
}

/// Blocks of a footer that lead to the same batch let it be read any number of times.
#[test]
fn batches_in_the_same_place_are_refused() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let ids = batch(vec![("id", ids)]);
    let mut writer = FileWriter::try_new(Vec::new(), &ids.schema()).unwrap();
    writer.write(&ids).unwrap();
    writer.write(&ids).unwrap();
    let mut content = writer.into_inner().unwrap();
    assert_eq!(count(&content, &["id"]).unwrap(), [100, 100]);
    let blocks = |footer: Footer<'_>| footer.recordBatches().unwrap().iter().map(Block::offset).collect();
    let [first, second]: [i64; 2] = {
        let end = content.len() - 10;
        let length = u32::from_le_bytes(content[end..end + 4].try_into().unwrap());
        let blocks: Vec<_> = blocks(root_as_footer(&content[end - length as usize..end]).unwrap());
        blocks.try_into().unwrap()
    };
    let place = content.windows(8).rposition(|window| window == second.to_le_bytes()).unwrap();
    content[place..place + 8].copy_from_slice(&first.to_le_bytes());
    let message = message(count(&content, &["id"]));
    assert!(message.contains("two of its record batches are in the same place"), "{message}");
}

/// All slices of all batches share the converted texts.
#[test]
fn the_texts_of_a_dictionary_are_converted_once() {
    let keys = Int8Array::from(vec![Some(1), None, Some(0)]);
    let large_texts: ArrayRef = Arc::new(LargeStringArray::from(vec!["a", "b"]));
    let (values, buffers) = views(b"a text of more than 12 bytes", 2);
    let views: ArrayRef = Arc::new(StringViewArray::new(values, buffers, None));
    let large: ArrayRef = Arc::new(DictionaryArray::new(keys.clone(), large_texts));
    let view: ArrayRef = Arc::new(DictionaryArray::new(keys, views));
    let rows = batch(vec![("large", large), ("view", view)]);
    let mut writer = FileWriter::try_new(Vec::new(), &rows.schema()).unwrap();
    writer.write(&rows).unwrap();
    writer.write(&rows).unwrap();
    let (_folder, path) = file(&writer.into_inner().unwrap());
    let table = TableFile::open(&path).unwrap();
    let read: Vec<_> = table.batches(&["large", "view"], || Ok(())).unwrap().collect::<Result<_>>().unwrap();
    let [first, second] = &read[..] else { panic!("two batches") };
    for (name, wanted) in [
        ("large", [Some("b"), None, Some("a")]),
        ("view", [Some("a text of more than 12 bytes"), None, Some("a text of more than 12 bytes")]),
    ] {
        let values = |batch: &RecordBatch| Arc::clone(batch[name].as_any_dictionary().values());
        assert_eq!(values(first).data_type(), &DataType::Utf8);
        assert!(Arc::ptr_eq(&values(first), &values(second)));
        for batch in &read {
            let read = texts(batch, name).unwrap();
            assert_eq!([0, 1, 2].map(|row| read.get(row)), wanted);
        }
    }
}

/// 1,025 values of dictionaries that share a text of a MiB, in one column and in two.
#[test]
fn a_dictionary_whose_values_share_their_text_is_limited() {
    let column = |values| -> ArrayRef {
        let (values, buffers) = views(&vec![b'x'; 1 << 20], values);
        let values: ArrayRef = Arc::new(StringViewArray::new(values, buffers, None));
        Arc::new(DictionaryArray::new(Int8Array::from(vec![0]), values))
    };
    let one = batch(vec![("text", column(1_025)), ("id", Arc::new(Int64Array::from(vec![1])))]);
    let two = batch(vec![("text", column(900)), ("id", column(125))]);
    for content in [one, two].iter().flat_map(written_without_parquet) {
        let message = message(count(&content, &["text", "id"]));
        assert!(message.contains("come to 1074790400 bytes, wanted at most 1073741824"), "{message}");
    }
}

/// A dictionary of structs, which the library may need any memory to continue, is left out if no column needs it.
#[test]
fn dictionaries_of_other_values_than_texts_and_numbers_are_not_read() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![5]));
    let field = Arc::new(Field::new("x", DataType::Int64, true));
    let values: ArrayRef = Arc::new(StructArray::new(Fields::from(vec![field]), vec![Arc::clone(&numbers)], None));
    let odd: ArrayRef = Arc::new(DictionaryArray::new(Int8Array::from(vec![0]), values));
    for content in written_without_parquet(&batch(vec![("odd", odd), ("id", numbers)])) {
        assert_eq!(count(&content, &["id"]).unwrap(), [1]);
        assert!(message(count(&content, &["odd"])).contains("record batch cannot be read"));
    }
}

#[test]
fn structs_of_images_have_few_plain_fields() {
    let field = |name: &str, kind: DataType| Field::new(name, kind, true);
    let run = DataType::RunEndEncoded(
        Arc::new(field("run_ends", DataType::Int32)),
        Arc::new(field("values", DataType::Utf8)),
    );
    let pair = |bytes, path| vec![field("bytes", bytes), field("path", path)];
    let with = |more: DataType, times: usize| {
        let more = (0..times).map(|number| field(&format!("f{number}"), more.clone()));
        pair(DataType::Binary, DataType::Utf8).into_iter().chain(more).collect::<Vec<_>>()
    };
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    for (fields, wanted) in [
        (pair(DataType::LargeBinary, DataType::Utf8View), true),
        (pair(DataType::Utf8, DataType::Utf8), false),
        (pair(DataType::Binary, run), false),
        (pair(DataType::Binary, dictionary), false),
        (with(DataType::Float32, 14), true),
        (with(DataType::Float32, 15), false),
        (with(DataType::Null, 1), false),
    ] {
        let kind = DataType::Struct(Fields::from(fields));
        assert_eq!(ColumnKind::Pictures.accepts(&kind).is_ok(), wanted, "{kind}");
    }
}

/// Views are decoded as bytes, and looked at when they are converted.
#[test]
fn views_that_are_not_utf8_are_refused() {
    let wrong: ArrayRef = Arc::new(BinaryViewArray::from_iter_values([b"\xff".as_slice()]));
    let error_text = message(column::utf8(&wrong));
    assert!(error_text.contains("a text is not UTF-8: invalid utf-8 sequence of 1 bytes from index 0"), "{error_text}");
    let right: ArrayRef = Arc::new(BinaryViewArray::from_iter([Some("ä".as_bytes()), None]));
    assert_eq!(column::utf8(&right).unwrap().iter().collect::<Vec<_>>(), [Some("ä"), None]);
}

/// Messages of an Arrow stream, each with its body, without the empty one at the end.
fn messages(stream: &[u8]) -> Vec<&[u8]> {
    let mut messages = Vec::new();
    let mut rest = stream;
    loop {
        let length = usize::try_from(i32::from_le_bytes(rest[4..8].try_into().unwrap())).unwrap();
        if length == 0 {
            return messages;
        }
        let body = root_as_message(&rest[8..8 + length]).unwrap().bodyLength();
        let (message, after) = rest.split_at(8 + length + usize::try_from(body).unwrap());
        messages.push(message);
        rest = after;
    }
}

/// Each dictionary has 130 MiB and is compressed to a few kilobytes. Ten that replace one another are read. Eight in eight
/// columns come to 1,090,519,040 bytes and their metadata.
#[test]
fn dictionaries_that_are_too_large_together_are_refused() {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![0; 130 << 17]));
    let column: ArrayRef = Arc::new(DictionaryArray::new(Int8Array::from(vec![0]), values));
    let eight = batch("abcdefgh".split_inclusive(|_| true).map(|name| (name, Arc::clone(&column))).collect());
    let batch = batch(vec![("number", column)]);
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).unwrap();
    let mut stream = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options.clone()).unwrap();
    stream.write(&batch).unwrap();
    let stream = stream.into_inner().unwrap();
    let mut columns = StreamWriter::try_new_with_options(Vec::new(), &eight.schema(), options).unwrap();
    columns.write(&eight).unwrap();
    let columns = columns.into_inner().unwrap();
    drop((batch, eight));
    let [schema, dictionary, rows] = messages(&stream)[..] else { panic!("a schema, a dictionary and a batch") };
    assert!(dictionary.len() < 100_000, "{}", dictionary.len());
    let end = [0xff_u8, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    let with = |dictionaries: usize| [schema, &dictionary.repeat(dictionaries), rows, &end].concat();
    assert_eq!(count(&with(10), &["number"]).unwrap(), [1]);
    let message = message(count(&columns, &["a"]));
    assert!(
        message.contains("dictionaries come to 10905") && message.contains("wanted at most 1073741824"),
        "{message}"
    );
}

/// Lengths of two buffers of 2⁶³ − 1 bytes and one of 8,000 come to 7,998 beyond 2⁶⁴.
#[test]
fn lengths_of_buffers_that_add_up_beyond_64_bits_are_refused() {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![0; 1000]));
    let batch = batch("abc".split_inclusive(|_| true).map(|name| (name, Arc::clone(&column))).collect());
    for mut content in written_without_parquet(&batch) {
        assert_eq!(count(&content, &["a"]).unwrap(), [1000]);
        let length = 8000_i64.to_le_bytes();
        let places: Vec<usize> = (0..content.len() - 8).filter(|&at| content[at..at + 8] == length).collect();
        // Three lengths, of which the last stays, and places of buffers, which may be anywhere.
        assert!(places.len() > 3, "{places:?}");
        for &at in &places[..places.len() - 1] {
            content[at..at + 8].copy_from_slice(&i64::MAX.to_le_bytes());
        }
        let message = message(count(&content, &["a"]));
        assert!(message.contains("cut short or damaged"), "{message}");
    }
}
