//! Tests of sessions over one run and over all runs, on a store that is written by hand.

use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeListArray, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field};
use bytes::Bytes;
use serde_json::json;

use super::{OutputFormat, Session};
use pairloom_base::error::{Error, Result};
use pairloom_storage::parquet;
use pairloom_store::Store;
use pairloom_store::record::RunLog;
use pairloom_store::record::{RunOutcome, RunRecord};
use pairloom_store::testing::{WrittenStage, finished_run, stage};

fn part(columns: Vec<(&str, ArrayRef)>) -> (Bytes, u64) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    (parquet::encode(&batch.schema(), std::slice::from_ref(&batch)).unwrap(), batch.num_rows() as u64)
}

fn captions(texts: &[&str]) -> (Bytes, u64) {
    let ids: Vec<i64> = (0..).take(texts.len()).collect();
    part(vec![("caption_id", Arc::new(Int64Array::from(ids))), ("text", Arc::new(StringArray::from(texts.to_vec())))])
}

fn summary(rsum: f64, more: bool) -> (Bytes, u64) {
    let mut columns: Vec<(&str, ArrayRef)> = vec![("rsum", Arc::new(Float64Array::from(vec![rsum])))];
    if more {
        columns.push(("i2t_r20", Arc::new(Float64Array::from(vec![99.0]))));
    }
    part(columns)
}

/// Run of a data set and an evaluation.
fn run(store: &Store, name: &str, pipeline: &str, texts: &[&str], seed: u32, rsum: f64) -> RunRecord {
    let ((captions, n), (summary, rows)) = (captions(texts), summary(rsum, seed == 2));
    let stages = [
        WrittenStage { table: ("captions", captions, n), ..stage("pairs", "ingest", json!({ "name": pipeline }), &[]) },
        WrittenStage {
            table: ("summary", summary, rows),
            ..stage("test", "evaluate", json!({ "seed": seed, "loss": { "max": { "margin": 0.2 } } }), &["pairs"])
        },
    ];
    finished_run(store, name, pipeline, &stages)
}

/// Two pipelines with stages of the same names; the first one with two seeds, and a repeat of the second seed.
fn store() -> (tempfile::TempDir, Arc<RunLog>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    run(&store, "20260101T000000.000Z-0001", "precomp.toml", &["a dog", "a cat"], 1, 300.0);
    run(&store, "20260102T000000.000Z-0002", "precomp.toml", &["a dog", "a cat"], 2, 310.0);
    run(&store, "20260103T000000.000Z-0003", "precomp.toml", &["a dog", "a cat"], 2, 310.0);
    let mut top = run(&store, "20260104T000000.000Z-0004", "top.toml", &["a man", "a hat", "a bus"], 1, 99.0);
    top.stages.truncate(1);
    top.save(&store).unwrap();
    let log = Arc::new(RunLog::open(&store).unwrap());
    (folder, log)
}

fn csv(log: &Arc<RunLog>, of: &str, sql: &str) -> Result<String> {
    let session = Session::of_run(log, Some(log.find(of)?))?;
    let rows = session.query(sql)?;
    let mut out = Vec::new();
    OutputFormat::Csv.write(&rows.schema(), rows, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn error(log: &Arc<RunLog>, of: &str, sql: &str) -> Error {
    csv(log, of, sql).expect_err("the query is wrong")
}

#[test]
fn a_query_sees_one_run_only() {
    let (_folder, log) = store();
    let count = "SELECT count(*) AS n FROM pairs.captions";
    assert_eq!(csv(&log, "latest", count).unwrap(), "n\n3\n");
    assert_eq!(csv(&log, "precomp", count).unwrap(), "n\n2\n");
    assert_eq!(csv(&log, "0001", "SELECT rsum FROM test.summary").unwrap(), "rsum\n300.0\n");
    // The last run has no stage `test`, and the session does not take it from another data set.
    let join = "SELECT c.text, t.rsum FROM test.summary t JOIN pairs.captions c ON true";
    let error = error(&log, "latest", join);
    assert!(error.to_string().contains("no table `test.summary` in the run `20260104T000000.000Z-0004`"), "{error}");
    let hint = error.hint_text().unwrap();
    assert!(hint.contains("--pipeline precomp.toml") && hint.contains("all_runs.summary"), "{hint}");
}

/// The query of the book. A join by the key alone has seven rows: the shared result is twice in `all_runs`, and thrice in
/// `store.stages`.
#[test]
fn a_result_that_two_pipelines_share_is_counted_once_for_each_run() {
    let (_folder, log) = store();
    let mut other = run(log.store(), "20260105T000000.000Z-0005", "precomp.toml", &["a dog", "a cat"], 2, 310.0);
    other.pipeline = "other.toml".to_owned();
    other.save(log.store()).unwrap();
    let log = Arc::new(RunLog::open(log.store()).unwrap());
    let rows = |join: &str| {
        let sql = format!("SELECT s.run, a.rsum FROM all_runs.summary a JOIN store.stages s {join} ORDER BY 1");
        csv(&log, "latest", &sql).unwrap()
    };
    let expected = "run,rsum\n\
        20260101T000000.000Z-0001,300.0\n\
        20260102T000000.000Z-0002,310.0\n\
        20260103T000000.000Z-0003,310.0\n\
        20260105T000000.000Z-0005,310.0\n";
    assert_eq!(rows("USING (pipeline, stage, key)"), expected);
    assert_eq!(rows("ON s.key = a.key").lines().count(), 1 + 7);
}

#[test]
fn all_runs_are_one_table_with_each_result_once() {
    let (_folder, log) = store();
    let rows = csv(
        &log,
        "latest",
        "SELECT last_run, pipeline, stage, rsum, i2t_r20, settings['test.seed'] AS seed, settings['test.loss'] AS loss, \
         settings['pairs.name'] AS name FROM all_runs.summary ORDER BY rsum",
    );
    let expected = "last_run,pipeline,stage,rsum,i2t_r20,seed,loss,name\n\
        20260101T000000.000Z-0001,precomp.toml,test,300.0,,1,max,precomp.toml\n\
        20260103T000000.000Z-0003,precomp.toml,test,310.0,99.0,2,max,precomp.toml\n";
    assert_eq!(rows.unwrap(), expected);
    let of = |condition: &str| {
        csv(&log, "latest", &format!("SELECT count(*) AS n FROM all_runs.captions WHERE {condition}")).unwrap()
    };
    assert_eq!(of("pipeline = 'top.toml'"), "n\n3\n");
    assert_eq!(of("pipeline = 'top.toml' AND text LIKE '%hat'"), "n\n1\n");
    assert_eq!(of("settings['pairs.name'] = 'precomp.toml'"), "n\n2\n");
    assert_eq!(of("last_run > '2027'"), "n\n0\n");
    let columns = csv(&log, "latest", "SELECT run_settings, settings, key FROM all_runs.significance_tests").unwrap();
    assert_eq!(columns, "run_settings,settings,key\n", "the table has a column `settings` of its own");
    // The rows of one run, by the keys of its stages.
    let of_run = csv(
        &log,
        "latest",
        "SELECT s.run, count(*) AS n FROM all_runs.captions c JOIN store.stages s ON s.key = c.key \
         WHERE s.run LIKE '%1' GROUP BY 1",
    );
    assert_eq!(of_run.unwrap(), "run,n\n20260101T000000.000Z-0001,2\n");
    // The columns of the latest result come first, in every session.
    let header = "rsum,i2t_r20,last_run,pipeline,stage,key,settings";
    for _ in 0..8 {
        let log = Arc::new(RunLog::open(log.store()).unwrap());
        assert!(csv(&log, "latest", "SELECT * FROM all_runs.summary").unwrap().starts_with(header));
    }
    // A table that no stage wrote is empty; a name that no table has is unknown.
    assert_eq!(csv(&log, "latest", "SELECT count(*) AS n FROM all_runs.history").unwrap(), "n\n0\n");
    assert!(
        error(&log, "latest", "SELECT 1 FROM all_runs.nothing").to_string().contains("no table `all_runs.nothing`")
    );
}

#[test]
fn the_records_of_the_store_can_be_asked() {
    let (_folder, log) = store();
    let ask = |sql: &str| csv(&log, "latest", sql).unwrap();
    assert_eq!(
        ask("SELECT run, repeat_of FROM store.runs WHERE repeat_of IS NOT NULL"),
        "run,repeat_of\n20260103T000000.000Z-0003,20260102T000000.000Z-0002\n"
    );
    assert_eq!(
        ask("SELECT DISTINCT value, number FROM store.settings WHERE setting = 'seed' ORDER BY 1"),
        "value,number\n1,1.0\n2,2.0\n"
    );
    // From the row of a metric to its source.
    assert_eq!(
        ask("SELECT l.distance, l.ancestor_stage, l.source_path, l.source_digest \
             FROM all_runs.summary s JOIN store.lineage l ON l.key = s.key WHERE s.rsum = 300 ORDER BY 1, 2, 3 DESC"),
        "distance,ancestor_stage,source_path,source_digest\n1,pairs,,\n2,pairs,data/captions.csv,0123456789abcdef\n"
    );
    assert_eq!(
        ask("SELECT DISTINCT kind, input, input_kind, input_table FROM store.inputs WHERE input_kind IS NOT NULL"),
        "kind,input,input_kind,input_table\nevaluate,pairs,ingest,captions\n"
    );
}

#[test]
fn a_result_that_was_removed_is_an_error_with_the_command() {
    let (_folder, log) = store();
    let run = log.find("0001").unwrap();
    log.store().artefact("evaluate", &run.stages[1].key).remove().unwrap();
    let error = error(&log, "0001", "SELECT rsum FROM test.summary");
    assert!(error.to_string().contains("`test`") && error.to_string().contains("was removed"), "{error}");
    assert_eq!(error.hint_text(), Some("compute it again: pairloom run precomp.toml"));
    let session = Session::of_run(&log, Some(run)).unwrap();
    let mut out = Vec::new();
    let rows = session.query("SELECT count(*) AS n FROM all_runs.summary").unwrap();
    OutputFormat::Csv.write(&rows.schema(), rows, &mut out).unwrap();
    assert_eq!(out, b"n\n1\n");
    assert_eq!(session.take_removed_results(), [("summary".to_owned(), 1)].into());
    assert!(session.take_removed_results().is_empty());
}

#[test]
fn what_a_failed_run_did_not_finish_has_no_lineage_and_no_hint() {
    let (_folder, log) = store();
    let mut failed = log.find("0001").unwrap().clone();
    failed.run = "20260105T000000.000Z-0005".to_owned();
    failed.pipeline = "failed.toml".to_owned();
    failed.outcome = RunOutcome::Failed;
    let fit = &mut failed.stages[1];
    fit.name = "fit".to_owned();
    fit.seconds = None;
    let identity = fit.identity.as_mut().unwrap();
    identity.settings = json!({ "seed": 77 });
    fit.key = identity.key();
    let unfinished = fit.key.to_string();
    failed.save(log.store()).unwrap();
    let log = Arc::new(RunLog::open(log.store()).unwrap());
    let keys = csv(&log, "latest", "SELECT DISTINCT key FROM store.lineage").unwrap();
    assert!(!keys.contains(&unfinished) && keys.lines().count() == 5, "header and four results: {keys}");
    let hint = error(&log, "latest", "SELECT 1 FROM fit.summary");
    let hint = hint.hint_text().unwrap();
    assert_eq!(hint, "the failed run `20260105T000000.000Z-0005` may have it: `--run 0005`");
    let unknown = error(&log, "latest", "SELECT 1 FROM all_runs.sumary");
    assert_eq!(unknown.hint_text(), Some("did you mean `all_runs.summary`?"));
}

#[test]
fn a_setting_that_no_run_has_is_an_error() {
    let (_folder, log) = store();
    let wrong = |sql: &str| error(&log, "latest", sql);
    let got = wrong("SELECT settings['test.sead'] AS s, rsum\nFROM all_runs.summary");
    assert_eq!(got.hint_text(), Some("did you mean `test.seed`?"));
    assert!(
        got.to_string().starts_with("SQL: no result has a setting `test.sead` at line 1, column 17; the nearest are"),
        "{got}"
    );
    // The parts in the middle of the name are missing.
    let got = wrong("SELECT a.rsum FROM all_runs.summary a WHERE a.settings['test.margin'] = '0.2'");
    assert_eq!(got.hint_text(), Some("did you mean `test.loss.margin`?"), "{got}");
    // Without results there is nothing to compare with.
    let none = csv(&log, "latest", "SELECT settings['any.thing'] AS x FROM all_runs.history");
    assert_eq!(none.unwrap(), "x\n");
}

#[test]
fn numbers_are_not_ordered_as_text() {
    let (_folder, log) = store();
    for sql in [
        "SELECT max(settings['test.seed']) FROM all_runs.summary",
        "SELECT settings['test.seed'] AS seed FROM all_runs.summary ORDER BY seed",
        "SELECT rsum, settings['test.seed'] FROM all_runs.summary ORDER BY 2 DESC",
        "SELECT rsum FROM all_runs.summary s ORDER BY rsum, s.settings['test.seed']",
        "SELECT rank() OVER (ORDER BY settings['test.seed']) FROM all_runs.summary",
    ] {
        let got = error(&log, "latest", sql);
        assert_eq!(got.hint_text(), Some("compare numbers: `settings['test.seed']::double`"), "{sql}: {got}");
    }
    let ask = |sql: &str| csv(&log, "latest", sql).unwrap();
    // A comparison with a number is one of numbers: as texts, `2` is after `10`.
    assert_eq!(ask("SELECT rsum FROM all_runs.summary WHERE settings['test.seed'] > 10"), "rsum\n");
    assert_eq!(ask("SELECT rsum FROM all_runs.summary WHERE settings['test.seed'] BETWEEN 2 AND 10"), "rsum\n310.0\n");
    assert_eq!(
        ask("SELECT max(settings['test.seed']::double) FROM all_runs.summary"),
        "max(settings['test.seed']::DOUBLE)\n2.0\n"
    );
    assert_eq!(ask("SELECT rsum FROM all_runs.summary WHERE settings['test.seed'] = '2'"), "rsum\n310.0\n");
    assert_eq!(
        ask("SELECT settings['test.loss'] AS loss, avg(rsum) FROM all_runs.summary GROUP BY 1 ORDER BY loss"),
        "loss,avg(rsum)\nmax,305.0\n"
    );
}

/// Part of image features of this width, one image for each of `rows`.
fn features(width: i32, rows: &[f32]) -> (Bytes, u64) {
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    let values = rows.iter().flat_map(|row| std::iter::repeat_n(*row, usize::try_from(width).unwrap()));
    let values = Arc::new(Float32Array::from_iter_values(values));
    part(vec![("feature", Arc::new(FixedSizeListArray::new(item, width, values, None)))])
}

#[test]
fn vectors_of_several_widths_are_lists() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for (name, (content, rows)) in [("0001", features(2, &[1.0])), ("0002", features(3, &[2.0, 4.0]))] {
        let source = stage("pairs", "ingest", json!({ "name": name }), &[]);
        // The width depends on the input, and the settings are the same.
        let table = ("features", content, rows);
        let extract = WrittenStage { table, ..stage("cnn", "extract", json!({ "size": 1 }), &["pairs"]) };
        finished_run(&store, &format!("20260101T000000.000Z-{name}"), "a.toml", &[source, extract]);
    }
    let log = Arc::new(RunLog::open(&store).unwrap());
    let rows = csv(
        &log,
        "0001",
        "SELECT array_sum(feature) AS sum, settings['pairs.name'] AS name FROM all_runs.features ORDER BY 1",
    );
    assert_eq!(rows.unwrap(), "sum,name\n2.0,0001\n6.0,0002\n12.0,0002\n");
}

#[test]
fn large_files_give_the_same_rows_as_small_ones() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    // Digests do not compress to less than half, so this file is larger than one that is read whole.
    let texts: Vec<String> = (0..20_000u32).map(|n| blake3::hash(&n.to_le_bytes()).to_hex().to_string()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    run(&store, "20260101T000000.000Z-0001", "small.toml", &["a dog", "a cat"], 1, 300.0);
    let small = Arc::new(RunLog::open(&store).unwrap());
    let query =
        |log: &Arc<RunLog>, what: &str| csv(log, "0001", &format!("SELECT {what} FROM all_runs.captions")).unwrap();
    let rows = "caption_id, text, pipeline, settings['pairs.name'] AS name";
    let of_small = query(&small, rows);
    assert_eq!(
        of_small,
        "caption_id,text,pipeline,name\n0,a dog,small.toml,small.toml\n1,a cat,small.toml,small.toml\n"
    );
    run(&store, "20260102T000000.000Z-0002", "large.toml", &texts, 2, 310.0);
    let both = Arc::new(RunLog::open(&store).unwrap());
    assert_eq!(query(&both, "count(*) AS n"), "n\n20002\n");
    assert_eq!(query(&both, "count(DISTINCT text) AS n, max(caption_id) AS m"), "n,m\n20002,19999\n");
    let of_both = csv(&both, "0001", &format!("SELECT {rows} FROM all_runs.captions WHERE text LIKE 'a %' ORDER BY 1"));
    assert_eq!(of_both.unwrap(), of_small);
    let filtered = csv(
        &both,
        "0001",
        "SELECT count(*) AS n FROM all_runs.captions WHERE pipeline = 'large.toml' AND caption_id < 7",
    );
    assert_eq!(filtered.unwrap(), "n\n7\n");
}

#[test]
fn pipelines_of_one_text_are_told_apart_and_texts_of_one_pipeline_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for (name, text, file, rsum) in [
        ("20260101T000000.000Z-0001", "a.toml", "/one/a.toml", 300.0),
        ("20260102T000000.000Z-0002", "a.toml", "/two/a.toml", 310.0),
        ("20260103T000000.000Z-0003", "../b.toml", "/b.toml", 320.0),
        ("20260104T000000.000Z-0004", "b.toml", "/b.toml", 330.0),
    ] {
        let mut run = run(&store, name, text, &["a dog"], 1, rsum);
        run.command.file = Some(file.to_owned());
        run.save(&store).unwrap();
    }
    let log = Arc::new(RunLog::open(&store).unwrap());
    let rows = |sql: &str| csv(&log, "0001", sql).unwrap();
    let expected = "pipeline,n\n/one/a.toml,1\n/two/a.toml,1\nb.toml,2\n";
    for table in ["all_runs.summary", "store.runs"] {
        assert_eq!(
            rows(&format!("SELECT pipeline, count(*) AS n FROM {table} GROUP BY 1 ORDER BY 1")),
            expected,
            "{table}"
        );
    }
    assert_eq!(rows("SELECT DISTINCT pipeline FROM store.stages WHERE run LIKE '%-0003'"), "pipeline\nb.toml\n");
    assert_eq!(rows("SELECT DISTINCT file FROM store.runs WHERE pipeline = 'b.toml'"), "file\n/b.toml\n");
}

#[test]
fn a_name_with_a_dot_in_quotes_has_a_hint() {
    let (_folder, log) = store();
    let error = error(&log, "0001", "SELECT rsum FROM \"test.summary\"");
    assert_eq!(error.to_string(), "SQL: `test.summary` in quotes is the name of a table without a stage");
    assert!(error.hint_text().unwrap().starts_with("write `test.summary` without quotes"));
}

#[test]
fn a_name_of_three_parts_begins_with_a_run() {
    let (_folder, log) = store();
    let counts = "SELECT (SELECT count(*) FROM pairs.captions) AS own, (SELECT count(*) FROM \"0001\".pairs.captions) AS \
                  other";
    assert_eq!(csv(&log, "latest", counts).unwrap(), "own,other\n3,2\n");
    // Two runs of one pipeline, by their names: in full, and by the pipeline.
    let compared = "SELECT a.rsum AS a, b.rsum AS b FROM \"20260101T000000.000Z-0001\".test.summary a, \
                    precomp.test.summary b";
    assert_eq!(csv(&log, "latest", compared).unwrap(), "a,b\n300.0,310.0\n");
    assert_eq!(csv(&log, "latest", "SELECT count(*) AS n FROM pairloom.pairs.captions").unwrap(), "n\n3\n");
    let unknown = error(&log, "latest", "SELECT * FROM \"0009\".pairs.captions");
    assert_eq!(unknown.to_string(), "SQL: there is no run `0009`");
    let unknown = error(&log, "latest", "SELECT * FROM \"0001\".pairs.caption");
    assert_eq!(unknown.hint_text(), Some("did you mean `pairs.captions`?"));
}
