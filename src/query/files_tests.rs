//! Tests of files as tables.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, Float32Builder, Float64Array, Int64Array, ListBuilder, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::data_type::{Int96, Int96Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::testing::{put, run, scores, store, text};
use super::{OutputFormat, Session};
use pairloom_base::error::{ErrorCategory, Result};
use pairloom_base::runtime::NamedFile;
use pairloom_store::claim::lock_for_reading;
use pairloom_store::gc::collect_garbage;
use pairloom_tables as tables;

fn csv_with(files: &[(&str, PathBuf)], sql: &str) -> Result<String> {
    let (_folder, store, _) = store();
    let session = Session::open(&store)?;
    for (name, path) in files {
        session.add_file(NamedFile { name: (*name).to_owned(), path: path.clone() })?;
    }
    text(&session, sql, OutputFormat::Csv)
}

#[test]
fn csv_json_lines_and_parquet_are_joined_by_name() {
    let folder = tempfile::Builder::new().prefix("a folder [1] 100% ").tempdir().unwrap();
    let write = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let table = "method,mine\nnns,1.5\ncsls,x\n";
    let csv = write("a=b.csv", table.as_bytes());
    let marked = write("marked.CSV", format!("\u{feff}{table}").as_bytes());
    let tsv = write("a.tsv", table.replace(',', "\t").as_bytes());
    let lines = write("a.jsonl", b"{\"method\": \"nns\", \"mine\": 1}\n{\"method\": \"csls\", \"mine\": 2.5}\n");
    let array = write("a.json", b" [{\"method\": \"nns\", \"mine\": 1}, {\"method\": \"csls\", \"mine\": 2.5}]");
    let join =
        |name: &str| format!("SELECT s.rsum, m.mine FROM test.summary s JOIN {name} m USING (method) ORDER BY 1");
    // A late text makes the whole column text.
    for path in [csv, marked, tsv] {
        assert_eq!(csv_with(&[("mine", path)], &join("mine")).unwrap(), "rsum,mine\n345.5,1.5\n400.0,x\n");
    }
    for path in [lines, array] {
        assert_eq!(csv_with(&[("Mine", path)], &join("files.mine")).unwrap(), "rsum,mine\n345.5,1.0\n400.0,2.5\n");
    }
    let (_folder, store, _) = store();
    let session = Session::open(&store).unwrap();
    let rows = session.query("SELECT method, rsum AS mine FROM test.summary").unwrap();
    let mut parquet = Vec::new();
    OutputFormat::Parquet.write(&rows.schema(), rows, &mut parquet).unwrap();
    let parquet = write("a.parquet", &parquet);
    let files = [("mine", parquet)];
    assert_eq!(csv_with(&files, &join("mine")).unwrap(), "rsum,mine\n345.5,345.5\n400.0,400.0\n");
    assert!(csv_with(&files, "SHOW TABLES FROM files").unwrap().contains("files,mine,,"));
    assert!(csv_with(&files, "DESCRIBE mine").unwrap().contains("mine,Float64"));
}

/// Larger than the blocks in which object stores read, 8 KiB, and than the parts into which DataFusion divides files, 1 MiB.
#[test]
fn long_files_are_read_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let csv = (0..3_000).map(|i| format!("{i},\"first line\nsecond, line\"\n"));
    std::fs::write(path("a.csv"), format!("i,s\n{}", csv.collect::<String>())).unwrap();
    let array: Vec<_> = (0..80_000).map(|i| format!("{{\"i\":{i},\"s\":\"text\"}}")).collect();
    std::fs::write(path("a.json"), format!("[{}]", array.join(",\n"))).unwrap();
    for (name, rows, shortest) in [("a.csv", 3_000_i64, 23), ("a.json", 80_000, 4)] {
        let sql = "SELECT count(*), max(i), sum(i), min(length(s)) FROM mine";
        let got = csv_with(&[("mine", path(name))], sql).unwrap();
        let expected = format!("\n{rows},{},{},{shortest}\n", rows - 1, rows * (rows - 1) / 2);
        assert!(got.ends_with(&expected), "{name}: {got}");
    }
}

/// Rows by hand. The key of the join is computed, so both columns `v` pass through a projection.
#[test]
fn a_condition_on_one_of_two_columns_of_one_name_filters_its_own_table() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, rows: [(i64, Option<i64>); 2]| {
        let columns: [(&str, ArrayRef); 2] = [
            ("k", Arc::new(Int64Array::from_iter_values(rows.map(|(key, _)| key)))),
            ("v", Arc::new(Int64Array::from_iter(rows.map(|(_, value)| value)))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let path = folder.path().join(name);
        let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        path
    };
    let left = write("l.parquet", [(1, Some(10)), (2, None)]);
    let right = write("r.parquet", [(2, Some(20)), (3, Some(30))]);
    let files = [("l", left), ("r", right)];
    for (sql, expected) in [
        ("SELECT r.k, r.v FROM l RIGHT JOIN r ON l.k = abs(r.k) WHERE l.v IS NULL ORDER BY r.k", "2,20 3,30"),
        ("SELECT r.k, r.v FROM l JOIN r ON l.k = abs(r.k) WHERE l.v IS NULL", "2,20"),
        ("SELECT l.k, l.v FROM l LEFT JOIN r ON l.k = abs(r.k) WHERE r.v IS NULL", "1,10"),
        ("SELECT l.k, r.k FROM l FULL JOIN r ON l.k = abs(r.k) WHERE l.v IS NULL ORDER BY r.k", "2,2 ,3"),
        ("SELECT l.k, r.v FROM l, r WHERE l.k = r.k + 0 AND r.v > 15", "2,20"),
    ] {
        let csv = csv_with(&files, sql).unwrap();
        assert_eq!(csv.lines().skip(1).collect::<Vec<_>>().join(" "), expected, "{sql}");
    }
}

/// Days since the first of January 4713 BC, by hand: 2,440,588 is 1970-01-01, and 9999-12-31 is 2,932,896 days later.
#[test]
fn dates_of_int96_are_those_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let read = |days: &[u32]| {
        let path = folder.path().join("a.parquet");
        let schema = Arc::new(parse_message_type("message m { required int96 t; }").unwrap());
        let properties = Arc::new(WriterProperties::default());
        let mut writer = SerializedFileWriter::new(std::fs::File::create(&path).unwrap(), schema, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let moments: Vec<_> = days
            .iter()
            .map(|day| {
                let mut moment = Int96::new();
                moment.set_data(1_000_000_007, 0, *day);
                moment
            })
            .collect();
        column.typed::<Int96Type>().write_batch(&moments, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        csv_with(&[("mine", path)], "SELECT t FROM mine").unwrap()
    };
    // In nanoseconds, unless one of them would be another then.
    assert_eq!(
        read(&[2_440_588, 2_440_588 - 365]),
        "t\n1970-01-01T00:00:01.000000007\n1969-01-01T00:00:01.000000007\n"
    );
    for (day, expected) in [(2_440_588 + 2_932_896, "9999-12-31"), (1_721_426, "0001-01-01")] {
        assert_eq!(read(&[2_440_588, day]), format!("t\n1970-01-01T00:00:01\n{expected}T00:00:01\n"));
    }
}

#[test]
fn files_with_two_columns_of_one_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.csv"), "a,b,a\n1,2,3\n").unwrap();
    let column: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
    let field = || Field::new("a", DataType::Float64, true);
    let batch = tables::batch(&Arc::new(Schema::new(vec![field(), field()])), vec![Arc::clone(&column), column]);
    let batch = batch.unwrap();
    let file = std::fs::File::create(path("a.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    for name in ["a.csv", "a.parquet"] {
        let error = csv_with(&[("mine", path(name))], "SELECT count(*) FROM mine WHERE a = 3").unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Data, "{error}");
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("two columns") && text.ends_with("name `a`"), "{text}");
    }
}

#[test]
fn texts_that_look_like_dates_are_texts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(
        &path,
        "day,code,at\n2020-02-29,1234-56-78,2020-01-01T00:00:00\n2021-02-28,2020-01-01,1500-01-01T25:00:00\n",
    )
    .unwrap();
    let types = csv_with(
        &[("mine", path.clone())],
        "SELECT arrow_typeof(day), arrow_typeof(code), arrow_typeof(at) FROM mine LIMIT 1",
    );
    assert!(types.unwrap().ends_with("\nDate32,Utf8,Utf8\n"));
    let rows = csv_with(&[("mine", path)], "SELECT code, at FROM mine WHERE day > DATE '2020-12-31'").unwrap();
    assert_eq!(rows, "code,at\n2020-01-01,1500-01-01T25:00:00\n");
}

#[test]
fn arrays_that_are_cut_are_errors_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content, expected, is_cut) in [
        ("a.json", "[{\"z\":1},{\"z\":2}", "is not one JSON array: EOF", true),
        ("b.json", "[{\"z\":1}] [{\"z\":2}]", "is not one JSON array: trailing characters", true),
        ("c.json", "[{\"z\":NaN}]", "is not one JSON array: expected value at line 1 column 7", false),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let error = csv_with(&[("mine", path)], "SELECT * FROM mine").unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Data, "{error}");
        assert!(error.to_string().contains(name) && error.to_string().contains(expected), "{error}");
        assert_eq!(error.hint_text().is_some_and(|hint| hint.contains("is cut")), is_cut, "{name}");
    }
}

#[test]
fn wrong_files_are_errors_with_their_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.csv"), "a,b\n1\n").unwrap();
    std::fs::write(path("a.parquet"), "a,b\n").unwrap();
    std::fs::write(path("a.xlsx"), "").unwrap();
    std::fs::write(path("empty.csv"), "").unwrap();
    let error = |name: &str| csv_with(&[("mine", path(name))], "SELECT * FROM mine").expect_err(name);
    for name in ["gone.csv", "a.csv", "a.parquet", "empty.csv"] {
        let got = error(name);
        assert_eq!(got.category(), ErrorCategory::Data, "{name}: {got}");
        assert!(got.to_string().contains(name), "{name}: {got}");
    }
    assert!(error("a.xlsx").hint_text().is_some_and(|hint| hint.contains("csv, tsv, parquet")));
    let twice = csv_with(&[("mine", path("a.csv")), ("MINE", path("a.csv"))], "SELECT 1").unwrap_err();
    assert!(twice.to_string().contains("two files"), "{twice}");
}

#[test]
fn a_query_reads_no_file_that_was_not_named() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret.csv");
    std::fs::write(&secret, "a\n1\n").unwrap();
    let named = [("mine", secret.clone())];
    let (path, url) = (secret.display(), format!("file://{}", secret.display()));
    for sql in [
        format!("SELECT * FROM '{path}'"),
        format!("SELECT * FROM \"{path}\""),
        format!("SELECT * FROM '{url}'"),
        format!("SELECT * FROM files.\"{path}\""),
        format!("SELECT * FROM read_csv('{path}')"),
        format!("SELECT * FROM csv_scan('{path}')"),
        format!("SELECT * FROM parquet_metadata('{path}')"),
        format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{path}'"),
    ] {
        assert_eq!(csv_with(&named, &sql).expect_err(&sql).category(), ErrorCategory::Usage, "{sql}");
    }
}

/// Zero equals minus zero, of which statistics and order say that it is smaller.
#[test]
fn zeros_of_both_signs_are_equal_in_joins() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, values: [f64; 2]| {
        let path = folder.path().join(name);
        let column: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
        let rows = RecordBatch::try_from_iter([("f", column)]).unwrap();
        let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), rows.schema(), None).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        path
    };
    let (plus, minus) = (write("plus.parquet", [0.0, 1.0]), write("minus.parquet", [-0.0, 2.0]));
    for sql in [
        "SELECT a.f FROM a JOIN b ON a.f = b.f",
        "SELECT f FROM a WHERE f IN (SELECT f FROM b)",
        "SELECT f FROM a WHERE f NOT IN (SELECT f + 1 FROM b WHERE f > 0) AND f <> 1",
    ] {
        let rows = csv_with(&[("a", plus.clone()), ("b", minus.clone())], sql).unwrap();
        assert_eq!(rows, "f\n0.0\n", "{sql}");
    }
    // Of stages too, whose rows are filtered as they are read.
    let (_folder, store, _) = store();
    let put = |settings, values: [f64; 2]| {
        let parts = vec![scores(&values.map(|value| ("nns", value)))];
        put(&store, "evaluate", settings, &[("summary", parts)])
    };
    let (plus, minus) = (put(8, [0.0, 1.0]), put(9, [-0.0, 2.0]));
    run(&store, "20260103T000000", &[("a", "evaluate", &plus), ("b", "evaluate", &minus)]);
    let session = Session::open(&store).unwrap();
    for (sql, expected) in [
        ("SELECT a.rsum FROM a.summary a JOIN b.summary b ON a.rsum = b.rsum", "rsum\n0.0\n"),
        ("SELECT b.rsum FROM a.summary a JOIN b.summary b ON a.rsum = b.rsum", "rsum\n-0.0\n"),
        ("SELECT rsum FROM b.summary WHERE rsum IN (SELECT rsum FROM a.summary)", "rsum\n-0.0\n"),
        ("SELECT a.rsum FROM a.summary a RIGHT JOIN b.summary b ON a.rsum = b.rsum WHERE b.rsum < 2", "rsum\n0.0\n"),
    ] {
        assert_eq!(text(&session, sql, OutputFormat::Csv).unwrap(), expected, "{sql}");
    }
}

/// Three row groups, the second of which has a NaN, which is the largest value. Statistics do not have it.
#[test]
fn the_largest_value_may_be_nan() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let values = Float64Array::from_iter_values((0..300).map(|row| if row == 150 { f64::NAN } else { f64::from(row) }));
    let column: ArrayRef = Arc::new(values);
    let rows = RecordBatch::try_from_iter([("value", column)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(100)).build();
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    let largest = |limit| format!("SELECT value FROM mine ORDER BY value DESC LIMIT {limit}");
    let read = |sql: &str| csv_with(&[("mine", path.clone())], sql).unwrap();
    assert_eq!(read(&largest(1)), "value\nNaN\n");
    assert_eq!(read(&largest(3)), "value\nNaN\n299.0\n298.0\n");
    // Of a stage too, whose statistics are used.
    let (_folder, store, _) = store();
    let parts = vec![scores(&[("nns", f64::NAN), ("csls", 1.0)]), scores(&[("gm", 400.0)])];
    let test = put(&store, "evaluate", 9, &[("summary", parts)]);
    run(&store, "20260103T000000", &[("test", "evaluate", &test)]);
    let session = Session::open(&store).unwrap();
    for sql in [
        "SELECT method FROM test.summary WHERE rsum > 1e9",
        "SELECT method FROM test.summary ORDER BY rsum DESC LIMIT 1",
        "SELECT method FROM test.summary WHERE isnan(rsum)",
    ] {
        assert_eq!(text(&session, sql, OutputFormat::Csv).unwrap(), "method\nnns\n", "{sql}");
    }
    // Groups of which one has a NaN: the first of all is the first with a limit.
    let csv = folder.path().join("a.csv");
    std::fs::write(&csv, "k,f\n0,10\n1,9\n1,NaN\n1,1\n2,2\n").unwrap();
    let groups = |limit: &str| {
        let sql = format!("SELECT k, max(f) AS m FROM mine GROUP BY k ORDER BY m DESC {limit}");
        csv_with(&[("mine", csv.clone())], &sql).unwrap()
    };
    assert!(groups("").starts_with(&groups("LIMIT 1")), "{}", groups(""));
}

#[test]
fn results_are_not_removed_while_a_query_reads_them() {
    let (_folder, store, _) = store();
    let lock = store.objects().folder().unwrap().join("lock");
    std::fs::File::create(&lock).unwrap();
    let session = Session::open(&store).unwrap();
    let hold = lock_for_reading(&store).unwrap();
    let error = collect_garbage(&store, 1, true).unwrap_err();
    assert!(error.to_string().contains("a run or a query uses this store"), "{error}");
    drop(hold);
    let removing = std::fs::File::open(&lock).unwrap();
    removing.try_lock().unwrap();
    let Err(error) = session.query("SELECT rsum FROM test.summary") else { panic!("results are being removed") };
    assert!(error.to_string().contains("results of this store are being removed by"), "{error}");
    drop(removing);
    assert!(session.query("SELECT rsum FROM test.summary").is_ok());
}

/// The first vector is long, and there would be no memory for as many values of each.
#[test]
fn queries_of_different_widths_are_refused_before_there_is_space_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, lengths: &[usize]| {
        let mut lists = ListBuilder::new(Float32Builder::new());
        for length in lengths {
            lists.append_value(vec![Some(1.0); *length]);
        }
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from_iter_values((0..).take(lengths.len()))), Arc::new(lists.finish())];
        let fields =
            ["id", "v"].iter().zip(&columns).map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
        let batch = tables::batch(&Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns.clone()).unwrap();
        let path = folder.path().join(name);
        let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        path
    };
    let lengths = [vec![1_000_000], vec![1; 10_000]].concat();
    let files = [("q", write("q.parquet", &lengths)), ("i", write("i.parquet", &[1]))];
    let error = csv_with(&files, "SELECT query_id, id, rank FROM topk_join('q', 'i', 1)").unwrap_err();
    assert!(error.to_string().contains("vectors of 1000000 and of 1 values"), "{error}");
}
