//! Tests of the formats for reading: table, vertical, and the choice between them.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Float64Array, Int64Array, Int64Builder, ListArray, MapBuilder, NullArray, RecordBatch,
    StringArray, StringBuilder, StructArray, Time64MicrosecondArray, TimestampMillisecondArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::{FittedForm, OutputFormat, write_fitted, write_wrapped};
use pairloom_base::error::ErrorCategory;
use pairloom_tables as tables;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    tables::batch(&schema, columns.into_iter().map(|(_, column)| column).collect()).unwrap()
}

fn shown(batch: &RecordBatch, format: OutputFormat) -> String {
    let mut out = Vec::new();
    format.write(&batch.schema(), [Ok(batch.clone())].into_iter(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn fitted(batch: &RecordBatch, width: usize) -> (String, FittedForm) {
    let mut out = Vec::new();
    let rows = [Ok(batch.clone())].into_iter();
    let (form, _) = write_fitted(width, &batch.schema(), rows, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), form)
}

fn example() -> RecordBatch {
    batch(vec![
        ("n", Arc::new(Int64Array::from(vec![Some(1_234_567_890), None]))),
        ("x", Arc::new(Float64Array::from(vec![1.0 / 3.0, f64::NAN]))),
        ("text", Arc::new(StringArray::from(vec!["a\u{1b}\nb", ""]))),
        ("none", Arc::new(NullArray::new(2))),
    ])
}

#[test]
fn a_table_aligns_numbers_to_the_right_and_rounds_floats() {
    assert_eq!(
        shown(&example(), OutputFormat::Table),
        "+------------+----------+---------+------+\n\
         |          n |        x | text    | none |\n\
         +------------+----------+---------+------+\n\
         | 1234567890 | 0.333333 | a\\u{1b} | NULL |\n\
         |            |          | b       |      |\n\
         |       NULL |      NaN |         | NULL |\n\
         +------------+----------+---------+------+\n"
    );
}

#[test]
fn the_vertical_form_has_a_line_for_each_value() {
    let expected = "-- row 1\nn    | 1234567890\nx    | 0.333333\ntext | a\\u{1b}\n       b\nnone | NULL\n\
                    -- row 2\nn    | NULL\nx    | NaN\ntext | \nnone | NULL\n";
    assert_eq!(shown(&example(), OutputFormat::Vertical), expected);
    assert_eq!(shown(&example().slice(0, 0), OutputFormat::Vertical), "-- no rows; columns: n, x, text, none\n");
}

#[test]
fn formats_for_programs_have_all_digits() {
    let csv = shown(&example(), OutputFormat::Csv);
    assert_eq!(csv, "n,x,text,none\n1234567890,0.3333333333333333,\"a\u{1b}\nb\",\n,NaN,,\n");
    // JSON has no NaN.
    let lines = shown(&example(), OutputFormat::Jsonl);
    assert!(lines.starts_with("{\"n\":1234567890,\"x\":0.3333333333333333,\"text\":\"a\\u001b\\nb\",\"none\":null}\n"));
    assert!(lines.ends_with("{\"n\":null,\"x\":null,\"text\":\"\",\"none\":null}\n"), "{lines}");
}

/// One list of all values.
fn lists_of(values: &ArrayRef) -> ListArray {
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    ListArray::new(item, OffsetBuffer::from_lengths([values.len()]), Arc::clone(values), None)
}

#[test]
fn times_outside_of_the_calendar_and_unknown_zones_are_errors() {
    let far = Arc::new(Field::new("far", DataType::Timestamp(TimeUnit::Millisecond, None), true));
    let times = |last: i64| TimestampMillisecondArray::from(vec![Some(0), None, Some(last)]);
    let zoned = |zone: &str| batch(vec![("t", Arc::new(times(1).with_timezone(zone)) as ArrayRef)]);
    let wrong = [
        batch(vec![("t", Arc::new(times(i64::MAX)) as ArrayRef)]),
        batch(vec![("t", Arc::new(Date32Array::from(vec![Some(0), Some(i32::MAX)])) as ArrayRef)]),
        batch(vec![("t", Arc::new(Time64MicrosecondArray::from(vec![Some(-1), None])) as ArrayRef)]),
        zoned("Not/AZone"),
        batch(vec![("t", Arc::new(lists_of(&(Arc::new(times(i64::MAX)) as ArrayRef))) as ArrayRef)]),
        batch(vec![("t", Arc::new(StructArray::from(vec![(far, Arc::new(times(i64::MAX)) as ArrayRef)])) as ArrayRef)]),
    ];
    let write = |batch: &RecordBatch, format: OutputFormat| {
        format.write(&batch.schema(), [Ok(batch.clone())].into_iter(), Vec::new())
    };
    for (_, format) in OutputFormat::ALL.into_iter().filter(|(_, format)| *format != OutputFormat::Parquet) {
        for batch in &wrong {
            let error = write(batch, format).unwrap_err();
            assert_eq!(error.category(), ErrorCategory::Data, "{format:?}: {error}");
            assert!(error.to_string().starts_with("the values of the column `t` cannot be shown: "), "{error}");
        }
        for batch in
            [batch(vec![("t", Arc::new(times(-1)) as ArrayRef)]), zoned("UTC"), zoned("+01:00"), wrong[0].slice(0, 2)]
        {
            write(&batch, format).unwrap();
        }
    }
    assert!(shown(&zoned("+01:00"), OutputFormat::Jsonl).starts_with("{\"t\":\"1970-01-01T01:00:00+01:00\"}\n"));
}

#[test]
fn maps_have_texts_as_keys_in_json() {
    let map = |is_text: bool| {
        let mut numbers = MapBuilder::new(None, Int64Builder::new(), Int64Builder::new());
        numbers.keys().append_value(7);
        numbers.values().append_value(8);
        numbers.append(true).unwrap();
        let mut texts = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
        texts.keys().append_value("x");
        texts.values().append_value(8);
        texts.append(true).unwrap();
        let map: ArrayRef = if is_text { Arc::new(texts.finish()) } else { Arc::new(numbers.finish()) };
        batch(vec![("m", map)])
    };
    assert_eq!(shown(&map(true), OutputFormat::Jsonl), "{\"m\":{\"x\":8}}\n");
    assert_eq!(shown(&map(false), OutputFormat::Csv), "m\n{7: 8}\n");
    let numbers = map(false);
    let error = OutputFormat::Json.write(&numbers.schema(), [Ok(numbers.clone())].into_iter(), Vec::new()).unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Usage);
    assert_eq!(error.to_string(), "the column `m` has a map with keys of the type Int64; those of JSON are texts");
    let lists = batch(vec![("l", Arc::new(lists_of(&numbers.column(0).clone())) as ArrayRef)]);
    let error = OutputFormat::Jsonl.write(&lists.schema(), [Ok(lists.clone())].into_iter(), Vec::new()).unwrap_err();
    assert!(error.to_string().starts_with("the column `l` has a map with keys"), "{error}");
}

#[test]
fn a_terminal_gets_the_widest_form_that_fits() {
    let caption = "two dogs run over a wide green meadow towards the camera";
    let one = batch(vec![
        ("rank", Arc::new(Int64Array::from(vec![7]))),
        ("text", Arc::new(StringArray::from(vec![caption]))),
    ]);
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
    let (text, form) = fitted(&one, 80);
    assert!(form == FittedForm::Table && text.contains(caption) && text.lines().count() == 5, "{text}");
    let (text, form) = fitted(&one, 40);
    assert!(form == FittedForm::Table && text.lines().count() == 7 && widest(&text) == 40, "{text}");
    assert!(text.contains("|    7 | two dogs run over a wide      |\n|      | green meadow"), "{text}");
    // Twenty characters are the narrowest column.
    assert_eq!(fitted(&one, 29).1, FittedForm::Vertical);
    assert_eq!(fitted(&one, 29).0, format!("-- row 1\nrank | 7\ntext | {caption}\n"));

    let long = batch(vec![("text", Arc::new(StringArray::from(vec!["word ".repeat(100)])))]);
    let (text, form) = fitted(&long, 60);
    assert!(form == FittedForm::CutTable && text.contains('…') && widest(&text) <= 60, "{text}");
    let plan = batch(vec![("plan", Arc::new(StringArray::from(vec!["Sort: a\n  TableScan: ".repeat(9)])))]);
    assert_eq!(fitted(&plan, 20).1, FittedForm::Vertical);
    let wide = batch((0..20).map(|_| ("number", Arc::new(Int64Array::from(vec![1])) as ArrayRef)).collect());
    assert_eq!(fitted(&wide, 80).1, FittedForm::Vertical);
}

#[test]
fn a_pipe_gets_whole_words_and_all_of_them() {
    let wrapped = |batch: &RecordBatch, width: usize| {
        let mut out = Vec::new();
        write_wrapped(width, &batch.schema(), [Ok(batch.clone())].into_iter(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let key = "0123456789abcdef".repeat(4);
    let comment = "one row for each image and each caption ".repeat(20);
    let texts = |texts: &str| Arc::new(StringArray::from(vec![texts])) as ArrayRef;
    let one = batch(vec![("key", texts(&key)), ("comment", texts(&comment))]);
    let text = wrapped(&one, 120);
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    assert!(text.contains(&key), "{text}");
    assert_eq!(text.matches("caption").count(), 20, "{text}");
    // Nothing helps: each row is one line.
    assert_eq!(wrapped(&one, 60), shown(&one, OutputFormat::Table));
    assert_eq!(wrapped(&one, 2000), shown(&one, OutputFormat::Table));
}
