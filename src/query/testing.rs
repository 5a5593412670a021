//! Store for tests of SQL, written by hand.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};

use super::{OutputFormat, Session};
use pairloom_base::error::Result;
use pairloom_stage::Warning;
use pairloom_storage::parquet;
use pairloom_store::Store;
use pairloom_store::key::{ArtefactIdentity, Key};
use pairloom_store::record::{RunCommand, RunOutcome, RunRecord, StageRecord};
use pairloom_store::testing::put_artefact;
use pairloom_tables as tables;

/// Table with a text column, `method`, and an f64 column, `rsum`.
pub fn scores(rows: &[(&str, f64)]) -> RecordBatch {
    let schema =
        Schema::new(vec![Field::new("method", DataType::Utf8, false), Field::new("rsum", DataType::Float64, false)]);
    tables::batch(
        &Arc::new(schema),
        vec![
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.0))),
            Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.1))),
        ],
    )
    .unwrap()
}

/// Features of images, each with its split, of multiples of 1/4.
pub fn features(rows: &[(i64, &str)], width: usize) -> RecordBatch {
    let values = (0..rows.len() * width).map(|i| f32::from(u16::try_from(i % 1024).unwrap()) / 4.0).collect();
    tables::batch(
        &tables::features::table().schema_with_width(width),
        vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.1))),
            tables::vector_array(values, width).unwrap(),
        ],
    )
    .unwrap()
}

/// Writes a complete artefact to the store, with a part for every batch.
pub fn put(store: &Store, kind: &str, settings: u32, tables: &[(&str, Vec<RecordBatch>)]) -> Key {
    let identity = ArtefactIdentity {
        kind: kind.to_owned(),
        version: 1,
        settings: serde_json::json!(settings),
        inputs: BTreeMap::new(),
    };
    let encode = |batch: &RecordBatch| {
        let content = parquet::encode(&batch.schema(), std::slice::from_ref(batch)).unwrap();
        (content, batch.num_rows() as u64)
    };
    let tables: Vec<_> = tables.iter().map(|(table, batches)| (*table, batches.iter().map(encode).collect())).collect();
    let warnings = vec![Warning { subject: "a.jpg".to_owned(), message: "does not decode".to_owned() }];
    put_artefact(store, &identity, &tables, warnings)
}

/// Writes the record of a finished run with these stages: name, kind and key.
pub fn run(store: &Store, name: &str, stages: &[(&str, &str, &Key)]) {
    let mut record = RunRecord::start("quick.toml", RunCommand::default());
    name.clone_into(&mut record.run);
    record.outcome = RunOutcome::Finished;
    for (stage, kind, key) in stages {
        record.stages.push(StageRecord {
            name: (*stage).to_owned(),
            coordinates: vec![],
            kind: (*kind).to_owned(),
            key: (*key).clone(),
            identity: None,
            tables: vec![],
            sources: BTreeMap::new(),
            warnings: vec![],
            reused: false,
            seconds: Some(0.25),
            stalls: None,
        });
    }
    record.save(store).unwrap();
}

/// Store in a folder of its own with the runs of [`put_two_runs`].
#[cfg(test)]
pub(super) fn store() -> (tempfile::TempDir, Store, [Key; 3]) {
    let folder = tempfile::Builder::new().prefix("a store [1] 100% ").tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let keys = put_two_runs(&store);
    (folder, store, keys)
}

/// Writes two runs to the store. The second run evaluates `test` again. The table of `cnn` has two parts.
pub fn put_two_runs(store: &Store) -> [Key; 3] {
    let cnn = put(
        store,
        "extract",
        1,
        &[("features", vec![features(&[(1, "train"), (2, "test")], 16), features(&[(3, "test")], 16)])],
    );
    let old = put(store, "evaluate", 1, &[("summary", vec![scores(&[("nns", 100.0)])])]);
    let new = put(
        store,
        "evaluate",
        2,
        &[("summary", vec![scores(&[("nns", 345.5), ("csls", 400.0)])]), ("rankings", vec![])],
    );
    run(store, "20260101T000000", &[("cnn", "extract", &cnn), ("test", "evaluate", &old)]);
    run(
        store,
        "20260102T000000",
        &[("cnn", "extract", &cnn), ("test", "evaluate", &new), ("Dev-Set", "evaluate", &old)],
    );
    [cnn, old, new]
}

/// Rows of a query as lines of CSV, without the names of the columns.
pub fn rows(session: &Session, sql: &str) -> Vec<String> {
    let csv = text(session, sql, OutputFormat::Csv).unwrap_or_else(|error| panic!("{sql}: {error}"));
    csv.lines().skip(1).map(str::to_owned).collect()
}

/// Rows of a query in a format.
///
/// # Errors
/// The query fails.
pub fn text(session: &Session, sql: &str, format: OutputFormat) -> Result<String> {
    let rows = session.query(sql)?;
    let mut out = Vec::new();
    format.write(&rows.schema(), rows, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}
