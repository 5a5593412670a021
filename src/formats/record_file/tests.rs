//! Tests of the formats: equal records in all of them, and their mistakes.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, LargeStringArray, ListBuilder, RecordBatch, StringArray, StringBuilder,
    UInt64Array,
};

use super::{DelimitedForm, FieldValue, RecordFile, RecordPlace};
use crate::table_file::ColumnKind;
use pairloom_base::error::{Error, Result};

const COLUMNS: [(&str, ColumnKind); 3] =
    [("file_name", ColumnKind::Texts), ("id", ColumnKind::TextsOrIntegers), ("caption", ColumnKind::TextsOrLists)];

/// Place, name, identifier and captions of a record.
type ReadRecord = (String, String, i64, Vec<String>);

/// Returns place, name, identifier and captions of every record of a file.
fn read(name: &str, content: &[u8]) -> Result<Vec<ReadRecord>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    let mut rows = Vec::new();
    let visit = |place: RecordPlace, values: &[FieldValue<'_>]| {
        let [name, id, captions] = values else { unreachable!() };
        let name = name.name().map_err(|problem| format!("`file_name` {problem}"))?;
        let id = id.integer().map_err(|problem| format!("`id` {problem}"))?;
        let captions = captions.texts().map_err(|problem| format!("`caption` {problem}"))?;
        let captions = captions.into_iter().map(|text| text.map_or_else(|| "null".to_owned(), Cow::into_owned));
        rows.push((place.to_string(), name.into_owned(), id, captions.collect()));
        Ok(())
    };
    let check = || Ok(());
    RecordFile::open(&path, DelimitedForm::default())?.for_each(&COLUMNS, "name them with `columns`", check, visit)?;
    Ok(rows)
}

fn described(result: Result<Vec<ReadRecord>>) -> String {
    let error: Error = result.unwrap_err();
    format!("{error}\n{}", error.hint_text().unwrap_or_default())
}

fn parquet(batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes
}

fn lists(rows: &[Option<&[Option<&str>]>]) -> ArrayRef {
    let mut builder = ListBuilder::new(StringBuilder::new());
    for row in rows {
        match row {
            Some(texts) => {
                texts.iter().for_each(|text| builder.values().append_option(*text));
                builder.append(true);
            }
            None => builder.append_null(),
        }
    }
    Arc::new(builder.finish())
}

fn names(values: Vec<Option<&str>>) -> ArrayRef {
    Arc::new(LargeStringArray::from(values))
}

#[test]
fn every_format_has_the_same_records() {
    let expected = |places: [&str; 2]| {
        [(places[0], "a.jpg", 7, "A, \"a\""), (places[1], "b.jpg", 8, "B")]
            .map(|(place, name, id, text)| (place.to_owned(), name.to_owned(), id, vec![text.to_owned()]))
    };
    let csv = b"id,file_name,x,caption\n7,a.jpg,,\"A, \"\"a\"\"\"\n8,b.jpg,,B\n";
    assert_eq!(read("t.csv", csv).unwrap(), expected(["line 2", "line 3"]));
    let tsv = b"id\tfile_name\tcaption\n7\ta.jpg\tA, \"a\"\n8\tb.jpg\tB\n";
    assert_eq!(read("t.tsv", tsv).unwrap(), expected(["line 2", "line 3"]));
    let json = "\u{feff}{\"file_name\": \"a.jpg\", \"id\": 7, \"caption\": \"A, \\\"a\\\"\"}\r\n\n\
                {\"id\": \"8\", \"caption\": [\"B\"], \"file_name\": \"b.jpg\"}";
    assert_eq!(read("t.JSONL", json.as_bytes()).unwrap(), expected(["line 1", "line 3"]));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(json.as_bytes()).unwrap();
    assert_eq!(read("t.ndjson.gz", &packed.finish().unwrap()).unwrap(), expected(["line 1", "line 3"]));
    let batch = RecordBatch::try_from_iter([
        ("file_name", names(vec![Some("a.jpg"), Some("b.jpg")])),
        ("caption", lists(&[Some(&[Some("A, \"a\"")]), Some(&[Some("B")])])),
        ("id", Arc::new(Int32Array::from(vec![7, 8])) as ArrayRef),
    ])
    .unwrap();
    // The format of Parquet files is recognised without the extension.
    assert_eq!(read("t.data", &parquet(&batch)).unwrap(), expected(["row 0 (from 0)", "row 1 (from 0)"]));
}

#[test]
fn a_list_has_several_captions_and_nulls() {
    let captions = |caption: &str| {
        let json = format!("{{\"file_name\": \"a.jpg\", \"id\": 1, \"caption\": {caption}}}\n");
        read("t.jsonl", json.as_bytes()).unwrap().remove(0).3
    };
    assert_eq!(captions("[\"A\", \"B\"]"), ["A", "B"]);
    assert_eq!(captions("[\"A\", null]"), ["A", "null"]);
    assert_eq!(captions("null"), ["null"]);
    assert_eq!(captions("[]"), [""; 0]);
    assert_eq!(captions("\"['A', None]\""), ["A", "null"]);
    let batch = RecordBatch::try_from_iter([
        ("file_name", names(vec![Some("a.jpg"), Some("b.jpg"), Some("c.jpg")])),
        ("caption", lists(&[None, Some(&[Some("A"), None]), Some(&[])])),
        ("id", Arc::new(Int32Array::from(vec![7, 8, 9])) as ArrayRef),
    ]);
    let rows = read("t.parquet", &parquet(&batch.unwrap())).unwrap();
    assert_eq!(rows.into_iter().map(|row| row.3).collect::<Vec<_>>(), [vec!["null"], vec!["A", "null"], vec![]]);
}

#[test]
fn every_mistake_is_named_with_its_place() {
    let lines = [
        "{\"file_name\": \"a.jpg\", \"id\": 1.5, \"caption\": \"A\"}",
        "[1, 2]",
        "{\"file_name\": ",
        "{\"file_name\": null, \"id\": 1, \"caption\": \"A\"}",
        "{\"file_name\": \" \", \"id\": 1, \"caption\": \"A\"}",
        "{\"file_name\": \"a\", \"id\": \"x\", \"caption\": \"A\"}",
        "{\"file_name\": \"a\", \"id\": 1, \"caption\": [\"A\", 1]}",
        "{\"file_name\": \"a\", \"id\": 1, \"caption\": 3}",
    ];
    let mut bytes = lines.join("\n").into_bytes();
    bytes.extend(b"\n{\"file_name\": \"\xe9\"}");
    let message = described(read("t.jsonl", &bytes));
    for part in [
        "has 9 mistakes",
        "line 1: `id` is 1.5, expected a whole number",
        "line 2: no JSON object, expected one a line",
        "line 3: no JSON object: EOF while parsing a value in column 13",
        "line 4: `file_name` is missing",
        "line 5: `file_name` is empty",
        "line 6: `id` is `x`, expected a whole number",
        "line 7: `caption` is a list with values that are no texts, expected a text or a list of texts",
        "line 8: `caption` is 3, expected a text or a list of texts",
        "line 9: bytes that are not UTF-8",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let batch = RecordBatch::try_from_iter([
        ("file_name", names(vec![Some("a.jpg"), None])),
        ("caption", lists(&[Some(&[Some("A")]), Some(&[Some("B")])])),
        ("id", Arc::new(Int32Array::from(vec![7, 8])) as ArrayRef),
    ])
    .unwrap();
    let message = described(read("t.parquet", &parquet(&batch)));
    assert!(message.contains("row 1 (from 0): `file_name` is missing"), "{message}");
}

#[test]
fn missing_columns_are_named_once_with_those_of_the_file() {
    let message = described(read("t.csv", b"file,caption\na,A\n"));
    assert!(message.contains("has 2 mistakes") && message.contains("no column `file_name`"), "{message}");
    assert!(message.ends_with("its columns are `file`, `caption`; name them with `columns`"), "{message}");
    let message = described(read("t.jsonl", b"{\"file\": \"a\", \"id\": 1, \"caption\": \"A\"}\n"));
    assert!(message.contains("t.jsonl` field `file_name`: is in no line"), "{message}");
    assert!(message.ends_with("the first line has `caption`, `file`, `id`; name them with `columns`"), "{message}");
    let batch = RecordBatch::try_from_iter([("id", Arc::new(Int32Array::from(vec![7])) as ArrayRef)]).unwrap();
    let message = described(read("t.parquet", &parquet(&batch)));
    assert!(message.contains("column `caption`: is not there") && message.contains("`id` (Int32)"), "{message}");
}

#[test]
fn other_formats_are_refused_with_the_way_out() {
    let hint = |name: &str| described(read(name, b"PK\x03\x04 something"));
    assert!(hint("t.json").contains("name the file `.jsonl`"));
    assert!(hint("t.xlsx").contains("save the sheet as CSV"));
    assert!(hint("t").contains("expected CSV (.csv), tabs (.tsv) or JSON Lines (.jsonl)"));
}

/// A kilobyte of Parquet can be gigabytes of captions.
#[test]
fn a_dictionary_that_makes_gigabytes_of_text_is_refused() {
    let rows = 10_000;
    let repeated = |text: &str| -> ArrayRef {
        let values = Arc::new(StringArray::from(vec![text]));
        Arc::new(DictionaryArray::new(Int32Array::from(vec![0; rows]), values))
    };
    let captions = repeated(&"x".repeat(16_000));
    let batch = RecordBatch::try_from_iter([
        ("file_name", repeated("a.jpg")),
        ("id", Arc::new(Int32Array::from_iter_values(0..10_000)) as ArrayRef),
        ("caption", captions),
    ])
    .unwrap();
    let content = parquet(&batch);
    assert!(content.len() < 100_000, "{} bytes", content.len());
    // 64 MiB, and 200 times the size of the file.
    let limit = (64 << 20) + 200 * content.len();
    // A row has its texts and 32 bytes.
    let row = limit / (16_000 + "a.jpg".len() + 32);
    let message = described(read("a.parquet", &content));
    assert!(message.contains(&format!("its rows up to {row} expand to more than {limit} bytes")), "{message}");
    assert!(message.contains("made to fill the memory"), "{message}");
}

#[test]
fn a_line_of_a_million_values_is_refused() {
    let line = format!("{{\"file_name\": \"a\", \"id\": 1, \"caption\": [{}\"b\"]}}\n", "\"a\",".repeat(1_000_000));
    let message = described(read("a.jsonl", line.as_bytes()));
    assert!(message.contains("line 1: more than 1000000 values in a line"), "{message}");
}

/// Identifiers without a sign that are beyond 2⁶³ - 1, in each format.
#[test]
fn a_large_identifier_is_not_a_missing_one() {
    let batch = RecordBatch::try_from_iter([
        ("file_name", Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef),
        ("id", Arc::new(UInt64Array::from(vec![Some(1 << 63), None]))),
        ("caption", Arc::new(StringArray::from(vec!["A", "B"]))),
    ]);
    let message = described(read("t.parquet", &parquet(&batch.unwrap())));
    for part in [
        "row 0 (from 0): `id` is above 9223372036854775807, expected a whole number",
        "row 1 (from 0): `id` is missing, expected a whole number",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let message = described(read("t.csv", b"file_name,id,caption\na,9223372036854775808,A\n"));
    assert!(message.contains("`id` is `9223372036854775808`, expected at most 9223372036854775807"), "{message}");
    let line = b"{\"file_name\": \"a\", \"id\": 9223372036854775808, \"caption\": \"A\"}";
    let message = described(read("t.jsonl", line));
    assert!(message.contains("`id` is 9223372036854775808, which is above 9223372036854775807"), "{message}");
}
