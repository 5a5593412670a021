//! Tests of SQL over a small store that is written by hand.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;

use super::testing::{features, put, run, store, text};
use super::{DeclaredTable, OutputFormat, Session, StageArtefact};
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_storage::parquet;
use pairloom_store::key::Key;
use pairloom_store::{Artefact, Presence, Store};
use pairloom_tables as tables;

fn csv(sql: &str) -> Result<String> {
    let (_folder, store, _) = store();
    text(&Session::open(&store)?, sql, OutputFormat::Csv)
}

fn error(sql: &str) -> Error {
    csv(sql).expect_err("the query is wrong")
}

#[test]
fn a_stage_is_that_of_the_last_run() {
    assert_eq!(csv("SELECT rsum FROM test.summary WHERE method = 'nns'").unwrap(), "rsum\n345.5\n");
    assert_eq!(csv("SELECT count(*) AS n, sum(image_id) AS s FROM cnn.features").unwrap(), "n,s\n3,6\n");
    assert_eq!(csv("SELECT rsum FROM \"Dev-Set\".summary").unwrap(), "rsum\n100.0\n");
    assert_eq!(csv("SELECT Rsum FROM TEST.Summary ORDER BY 1 DESC LIMIT 1").unwrap(), "rsum\n400.0\n");
    assert_eq!(csv("SELECT count(*) AS n FROM test.rankings").unwrap(), "n\n0\n");
}

fn evaluation(name: &str, key: Key) -> StageArtefact {
    StageArtefact { name: name.to_owned(), coordinates: vec![], kind: "evaluate".to_owned(), key }
}

#[test]
fn a_session_can_have_fixed_stages() {
    let (_folder, store, [_, old, _]) = store();
    let session = Session::of_stages(&store, [evaluation("test", old)]).unwrap();
    assert_eq!(text(&session, "SELECT rsum FROM test.summary", OutputFormat::Csv).unwrap(), "rsum\n100.0\n");
    assert!(session.query("SELECT 1 FROM cnn.features").is_err());
}

#[test]
fn an_exact_name_wins_over_one_in_another_case() {
    let (_folder, store, [_, old, new]) = store();
    // The latest run comes first and has the other spelling.
    let stages = [evaluation("Test", old), evaluation("test", new)];
    let session = Session::of_stages(&store, stages).unwrap();
    let rsum =
        |name: &str| text(&session, &format!("SELECT max(rsum) AS m FROM {name}.summary"), OutputFormat::Csv).unwrap();
    assert_eq!(rsum("test"), "m\n400.0\n");
    assert_eq!(rsum("TEST"), "m\n400.0\n");
    assert_eq!(rsum("\"Test\""), "m\n100.0\n");
    assert_eq!(rsum("\"tEST\""), "m\n100.0\n");
}

#[test]
fn queries_are_checked_against_declared_columns() {
    let schema = |name: &str| Arc::new(Schema::new(vec![Field::new(name, DataType::Float64, false)]));
    let tables = [("Test", "lower"), ("test", "exact")].map(|(stage, column)| DeclaredTable {
        stage: stage.to_owned(),
        coordinates: vec![],
        table: "t".to_owned(),
        schema: schema(column),
    });
    let session = Session::of_empty_tables(tables).unwrap();
    assert!(session.query("SELECT exact FROM test.t").is_ok() && session.query("SELECT lower FROM \"Test\".t").is_ok());
    assert!(session.query("SELECT count(*) FROM store.artefacts WHERE rows > 1").is_ok());
    let got = session.query("SELECT lower FROM tset.t").err().unwrap();
    assert_eq!((got.category(), got.hint_text()), (ErrorCategory::Usage, Some("did you mean `test.t`?")));
}

#[test]
fn joins_subqueries_and_common_table_expressions_work() {
    let sql = "WITH best AS (SELECT max(rsum) AS top FROM test.summary)
               SELECT s.method, n.c FROM test.summary s JOIN best ON s.rsum = best.top,
               (SELECT count(*) AS c FROM cnn.features WHERE split = 'test') n";
    assert_eq!(csv(sql).unwrap(), "method,c\ncsls,2\n");
    assert_eq!(csv("SELECT feature[2] AS x FROM cnn.features WHERE image_id = 3").unwrap(), "x\n0.25\n");
    assert_eq!(
        csv("SELECT upper(method) AS m, round(rsum) AS r FROM test.summary LIMIT 1").unwrap(),
        "m,r\nNNS,346.0\n"
    );
}

#[test]
fn small_tables_keep_their_row_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    // The first part takes longest to read.
    let sizes = [20_000, 1, 2, 3, 1, 1, 5, 1];
    let mut next = 0;
    let parts = sizes.map(|rows| {
        let ids: Vec<(i64, &str)> = (next..next + rows).map(|id| (id, "train")).collect();
        next += rows;
        features(&ids[..], 1)
    });
    let key = put(&store, "extract", 9, &[("features", parts.to_vec())]);
    run(&store, "20260101T000000", &[("cnn", "extract", &key)]);
    let session = Session::open(&store).unwrap();
    for _ in 0..5 {
        let rows = session.query("SELECT image_id FROM cnn.features WHERE image_id % 3 = 0").unwrap();
        let batches = rows.collect::<Result<Vec<_>>>().unwrap();
        let ids: Vec<i64> =
            batches.iter().flat_map(|b| tables::int_column(b, "image_id").unwrap().values().to_vec()).collect();
        assert_eq!(ids, (0..next).filter(|id| id % 3 == 0).collect::<Vec<_>>());
    }
}

#[test]
fn the_tables_of_the_store_schema() {
    let sql =
        "SELECT r.run, s.stage, s.kind, r.outcome FROM store.runs r JOIN store.stages s ON r.run = s.run ORDER BY 1, 2";
    assert_eq!(
        csv(sql).unwrap(),
        "run,stage,kind,outcome\n\
         20260101T000000,cnn,extract,finished\n20260101T000000,test,evaluate,finished\n\
         20260102T000000,Dev-Set,evaluate,finished\n20260102T000000,cnn,extract,finished\n\
         20260102T000000,test,evaluate,finished\n"
    );
    let sql = "SELECT stage, table_name, part, rows FROM store.parts ORDER BY stage, table_name, part";
    assert_eq!(
        csv(sql).unwrap(),
        "stage,table_name,part,rows\nDev-Set,summary,0,1\ncnn,features,0,2\ncnn,features,1,1\ntest,summary,0,2\n"
    );
    let sql = "SELECT kind, settings, rows, seconds, finished FROM store.artefacts WHERE stage = 'cnn'";
    assert_eq!(csv(sql).unwrap(), "kind,settings,rows,seconds,finished\nextract,1,3,1.5,2026-01-02T03:04:05Z\n");
    assert_eq!(csv("SELECT DISTINCT subject FROM store.warnings").unwrap(), "subject\na.jpg\n");
    assert_eq!(csv("SELECT count(*) AS n FROM store.expectations").unwrap(), "n\n0\n");
}

#[test]
fn an_unknown_table_is_an_error_with_the_nearest_tables() {
    let got = error("SELECT * FROM tset.summary");
    assert_eq!(got.category(), ErrorCategory::Usage);
    let nearest =
        "SQL: there is no table `tset.summary`; the nearest are test.summary, all_runs.summary, \"Dev-Set\".summary, ";
    assert!(got.to_string().starts_with(nearest) && got.to_string().ends_with("; `SHOW TABLES` lists all"), "{got}");
    assert_eq!(got.hint_text(), Some("did you mean `test.summary`?"));
    assert_eq!(error("SELECT * FROM features").hint_text(), Some("did you mean `cnn.features`?"));
    assert_eq!(error("SELECT * FROM a.b.c.d").category(), ErrorCategory::Usage);
    let column = error("SELECT rsun FROM test.summary").to_string();
    assert!(column.contains("rsun") && column.contains("rsum"), "{column}");
    assert_eq!(error("SELEKT 1").category(), ErrorCategory::Usage);
    assert_eq!(error("SELECT 1; SELECT 2").category(), ErrorCategory::Usage);
    assert_eq!(error("").category(), ErrorCategory::Usage);

    let folder = tempfile::tempdir().unwrap();
    let empty = Session::open(&Store::open(folder.path()).unwrap()).unwrap();
    let got = empty.query("SELECT * FROM test.summary").err().unwrap();
    assert_eq!(got.hint_text(), Some("no run has finished a stage in this store"));
}

#[test]
fn statements_that_write_or_read_other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out.csv");
    let secret = folder.path().join("secret.csv");
    std::fs::write(&secret, "a\n1\n").unwrap();
    let (target, secret) = (target.display(), secret.display());
    for sql in [
        format!("COPY (SELECT 1) TO '{target}' STORED AS CSV"),
        format!("COPY test.summary TO '{target}'"),
        format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{secret}'"),
        "CREATE TABLE t AS SELECT 1".to_owned(),
        "CREATE VIEW test.v AS SELECT 1".to_owned(),
        "INSERT INTO test.summary VALUES ('x', 1.0)".to_owned(),
        "DELETE FROM test.summary".to_owned(),
        "UPDATE test.summary SET rsum = 1".to_owned(),
        "DROP TABLE test.summary".to_owned(),
        "SET datafusion.execution.batch_size = 1".to_owned(),
        format!("SELECT * FROM '{secret}'"),
        format!("SELECT * FROM read_csv('{secret}')"),
        format!("EXPLAIN ANALYZE COPY (SELECT 1) TO '{target}' STORED AS CSV"),
    ] {
        let got = error(&sql);
        assert_eq!(got.category(), ErrorCategory::Usage, "{sql}: {got}");
        if !sql.starts_with("SELECT") {
            assert!(got.to_string().contains("the store is read-only"), "{sql}: {got}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn control_characters_do_not_reach_a_terminal() {
    let (_folder, store, _) = store();
    let session = Session::open(&store).unwrap();
    let sql = "SELECT chr(27) || '[2J' AS a, [chr(7)] AS b, 'ö' AS c, chr(8238) || 'gpj.a' AS d";
    let shown = text(&session, sql, OutputFormat::Table).unwrap();
    assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
    assert!(shown.contains("| \\u{1b}[2J | [\\u{7}] | ö | \\u{202e}gpj.a |"), "{shown}");
    // Machine-readable formats are not escaped.
    assert!(text(&session, sql, OutputFormat::Csv).unwrap().contains("\u{1b}[2J"));
}

#[test]
fn damaged_parts_are_data_errors() {
    let (_folder, store, [cnn, ..]) = store();
    let artefact = store.artefact("extract", &cnn);
    let part = Artefact::part_name("features", 1);
    let whole = artefact.get(&part).unwrap().unwrap();
    let session = Session::open(&store).unwrap();
    let count = || text(&session, "SELECT sum(image_id) FROM cnn.features", OutputFormat::Csv);

    artefact.put(&part, whole.slice(..whole.len() - 20)).unwrap();
    let got = count().expect_err("a part is cut short");
    assert_eq!(got.category(), ErrorCategory::Data);
    assert!(got.to_string().contains("part-00001.parquet"), "{got}");

    artefact.put(&part, Bytes::from(vec![7; whole.len()])).unwrap();
    let got = count().expect_err("a part is something else");
    assert_eq!(got.category(), ErrorCategory::Data, "{got}");
    artefact.delete("damaged").unwrap();

    artefact.delete(&part).unwrap();
    assert!(count().expect_err("a part is missing").to_string().contains("is missing"));
}

/// A vector is not compressed, so Parquet reads one with a flipped bit without a complaint.
#[test]
fn a_flipped_bit_of_a_vector_is_found_and_the_result_is_marked() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    // Two blocks and more.
    let rows: Vec<(i64, &str)> = (0..300).map(|id| (id, "test")).collect();
    let key = put(&store, "extract", 1, &[("features", vec![features(&rows, 600)])]);
    run(&store, "20260101T000000", &[("cnn", "extract", &key)]);
    let artefact = store.artefact("extract", &key);
    let part = Artefact::part_name("features", 0);
    let whole = artefact.get(&part).unwrap().unwrap();
    let sum = |store: &Store| {
        let session = Session::open(store).unwrap();
        text(&session, "SELECT sum(feature[7]) FROM cnn.features", OutputFormat::Csv)
    };
    let before = sum(&store).unwrap();
    let mut flipped = whole.to_vec();
    let in_the_last_block = whole.len() - 60_000;
    flipped[in_the_last_block] ^= 16;
    artefact.put(&part, flipped.into()).unwrap();
    let error = sum(&store).unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Data, "{error}");
    let message = error.to_string();
    assert!(message.contains("part-00000.parquet` is damaged: the digest of the block at 524288 differs"), "{message}");
    assert!(error.hint_text().is_some_and(|hint| hint.starts_with("run the pipeline again")), "{error:?}");
    let Presence::Damaged(problem) = artefact.presence().unwrap() else { panic!("the result is marked") };
    assert!(problem.contains("part-00000.parquet"), "{problem}");
    artefact.put(&part, whole).unwrap();
    artefact.delete("damaged").unwrap();
    assert_eq!(sum(&store).unwrap(), before);
}

#[test]
fn every_output_format() {
    let (_folder, store, _) = store();
    let session = Session::open(&store).unwrap();
    let all = |format| text(&session, "SELECT * FROM cnn.features WHERE image_id = 3", format).unwrap();
    let vector: Vec<String> = (0..16).map(|i| format!("{:?}", f64::from(i) / 4.0)).collect();
    assert_eq!(
        all(OutputFormat::Table),
        "+----------+-------+-------------------------------+\n\
         | image_id | split | feature                       |\n\
         +----------+-------+-------------------------------+\n\
         |        3 | test  | [0.0, 0.25, 0.5, … 16 values] |\n\
         +----------+-------+-------------------------------+\n"
    );
    let regions = text(
        &session,
        "SELECT [feature, feature] AS regions FROM cnn.features WHERE image_id = 3",
        OutputFormat::Table,
    );
    assert!(regions.unwrap().contains("| [[0.0, 0.25, 0.5, … 16 values], … 2 values] |"));
    assert_eq!(all(OutputFormat::Csv), format!("image_id,split,feature\n3,test,\"[{}]\"\n", vector.join(", ")));
    let object = format!("{{\"image_id\":3,\"split\":\"test\",\"feature\":[{}]}}", vector.join(","));
    assert_eq!(all(OutputFormat::Json), format!("[{object}]\n"));
    assert_eq!(all(OutputFormat::Jsonl), format!("{object}\n"));

    let rows = session.query("SELECT * FROM cnn.features WHERE image_id = 3").unwrap();
    let mut file = Vec::new();
    OutputFormat::Parquet.write(&rows.schema(), rows, &mut file).unwrap();
    let back: Vec<_> = parquet::decode(file.into()).unwrap().map(std::result::Result::unwrap).collect();
    assert_eq!(back, [features(&[(3, "test")], 16)]);
}

#[test]
fn an_empty_result_keeps_its_columns() {
    let (_folder, store, _) = store();
    let session = Session::open(&store).unwrap();
    let none = |format| text(&session, "SELECT * FROM cnn.features WHERE image_id > 9", format).unwrap();
    assert!(none(OutputFormat::Table).contains("| image_id | split | feature |"), "{}", none(OutputFormat::Table));
    assert_eq!(none(OutputFormat::Csv), "image_id,split,feature\n");
    assert_eq!(none(OutputFormat::Json), "[]\n");
    assert_eq!(none(OutputFormat::Jsonl), "");
    assert_eq!("parquet".parse(), Ok(OutputFormat::Parquet));
    assert!("xml".parse::<OutputFormat>().unwrap_err().contains("`jsonl`"));
}

/// Writer that fails after a number of bytes, as a full disk does.
struct FullDisk(usize);

impl std::io::Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 < bytes.len() {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_failed_write_of_the_result_is_a_stage_error() {
    let (_folder, store, _) = store();
    let session = Session::open(&store).unwrap();
    for (name, format) in OutputFormat::ALL {
        let rows = session.query("SELECT * FROM cnn.features").unwrap();
        let got = format.write(&rows.schema(), rows, FullDisk(30)).expect_err("there is no room");
        assert_eq!(got.category(), ErrorCategory::Stage, "{name}: {got}");
    }
}
