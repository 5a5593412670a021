//! Benchmark of commands and queries about many runs: 1,000 runs of 20 pipelines; with `-- --growth` 100, 1,000 and 10,000
//! runs, the last of which have 100,000 artefacts.
//!
//! Each run has five stages, or twelve with `--growth`. Its training and evaluation are its own; data and features are those
//! of its pipeline. The files are like those of `pipelines/quickstart.toml`, without the tables that the commands do not
//! read. Each command is a process of its own, with all files in the page cache, and the best of five times is printed. The
//! limit is the reading of 1,000 records, and for queries over all runs of 1,000 manifests and 1,000 Parquet files. One more
//! process only starts and ends.
//!
//! Run: `cargo bench --bench runs`, and `cargo bench --bench runs -- --growth`.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures time, starts processes and prints"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use bytes::Bytes;
use pairloom::io::parquet;
use pairloom::store::key::{ArtefactIdentity, InputIdentity};
use pairloom::store::record::{RunCommand, RunOutcome, RunRecord, ScoreRecord, StageRecord};
use pairloom::store::run_log::RunLog;
use pairloom::store::{Artefact, BlockDigests, Manifest, Part, Store};
use pairloom::tables;
use serde_json::{Value, json};

/// Number of runs.
const RUNS: usize = 1000;
/// Numbers of runs that show how times grow.
const GROWTH: [usize; 3] = [100, 1_000, 10_000];
/// Further artefacts of each of these runs.
const FURTHER: usize = 7;
/// Artefacts of a run that are its own: training, embeddings, evaluation and the further ones.
const RUN_STAGES: usize = 3 + FURTHER;
/// Number of pipelines.
const PIPELINES: usize = 20;
/// Number of times that each command runs.
const TIMES: usize = 5;

/// Writes the artefact of a stage and adds the stage to the record of its run.
fn add_stage(
    store: &Store,
    run: &mut RunRecord,
    [name, kind, reads]: [&str; 3],
    settings: Value,
    table: Option<&Bytes>,
) {
    let input = run.stage(reads).map(|producer| {
        let (kind, key) = (producer.kind.clone(), producer.key.clone());
        InputIdentity::Artefact { kind, key, output: "rows".to_owned() }
    });
    let input = input.unwrap_or_else(|| InputIdentity::Source("0123456789abcdef".to_owned()));
    let inputs = BTreeMap::from([("input".to_owned(), input)]);
    let identity = ArtefactIdentity { kind: kind.to_owned(), version: 1, settings, inputs };
    let key = identity.key();
    let path = |object: &str| format!("{kind}/{key}/{object}");
    let mut tables = BTreeMap::new();
    if let Some(content) = table {
        put(store, &path(&Artefact::part_name("summary", 0)), content);
        let digest = blake3::hash(content).to_hex().to_string();
        tables.insert(
            "summary".to_owned(),
            vec![Part {
                index: 0,
                rows: 1,
                bytes: content.len() as u64,
                digest,
                blocks: BlockDigests::default(),
                key: None,
            }],
        );
    }
    let stage = StageRecord {
        name: name.to_owned(),
        coordinates: vec![],
        warnings: vec![],
        kind: kind.to_owned(),
        key: key.clone(),
        identity: Some(identity.clone()),
        tables: tables.keys().cloned().collect(),
        sources: BTreeMap::new(),
        reused: false,
        seconds: Some(1.0),
        stalls: None,
    };
    run.stages.push(stage);
    let (finished, pairloom) = (run.started, run.pairloom.clone());
    let manifest = Manifest {
        identity,
        tables,
        files: BTreeMap::new(),
        row_keys: BTreeMap::new(),
        warnings: vec![],
        seconds: 1.0,
        finished,
        pairloom,
    };
    put(store, &path("manifest.json"), &serde_json::to_vec(&manifest).unwrap());
}

/// Writes an object without waiting for the disk, which would take most of the time of this benchmark.
fn put(store: &Store, name: &str, content: &[u8]) {
    let path = store.objects().folder().unwrap().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// Content of a table `summary` of one row, with all its columns.
fn summary(rsum: f64) -> Bytes {
    let schema = tables::summary::table(&tables::DEFAULT_CUTOFFS).schema();
    let column = |field: &FieldRef| -> ArrayRef {
        match field.data_type() {
            DataType::Utf8 => Arc::new(StringArray::from(vec!["nns"])),
            DataType::Float64 => Arc::new(Float64Array::from(vec![rsum])),
            other => cast(&Int64Array::from(vec![100]), other).unwrap(),
        }
    };
    let batch = tables::batch(&schema, schema.fields().iter().map(column).collect()).unwrap();
    parquet::encode(&schema, &[batch]).unwrap()
}

/// Settings of a training, as many as `train` has.
fn training(seed: usize) -> Value {
    let mut settings =
        json!({ "seed": seed, "epochs": 25, "loss": { "max": { "margin": 0.2 } }, "learning_rate": 2e-4 });
    for setting in 0..40 {
        settings[format!("setting_{setting}")] = json!(setting);
    }
    settings
}

/// Writes a store with `runs` runs, each with `further` more artefacts.
fn write_store(folder: &Path, runs: usize, further: usize) {
    let store = Store::open(folder).unwrap();
    let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    for number in 0..runs {
        let (pipeline, seed) = (number % PIPELINES, number / PIPELINES);
        let overrides = vec![format!("stage.fit.train.seed={seed}")];
        let command = RunCommand { overrides, ..RunCommand::default() };
        let mut run = RunRecord::start(&format!("pipelines/study{pipeline:02}.toml"), command);
        run.started = start + jiff::SignedDuration::from_mins(30 * i64::try_from(number).unwrap());
        run.finished = Some(run.started + jiff::SignedDuration::from_mins(5));
        run.outcome = RunOutcome::Finished;
        run.run = format!("{}-{number:04x}", run.started.strftime("%Y%m%dT%H%M%S.%3fZ"));
        let rsum = 200.0 + f64::from(u32::try_from(number * 37 % 100).unwrap());
        add_stage(&store, &mut run, ["pairs", "ingest", ""], json!({ "name": pipeline }), None);
        add_stage(&store, &mut run, ["cnn", "extract", "pairs"], json!({ "network": "squeezenet1_0" }), None);
        add_stage(&store, &mut run, ["fit", "train", "cnn"], training(seed), None);
        add_stage(&store, &mut run, ["joint", "embed", "fit"], json!({ "batch_size": 128 }), None);
        for place in 0..further {
            let name = format!("more{place}");
            add_stage(&store, &mut run, [&name, "embed", "fit"], json!({ "batch_size": place }), None);
        }
        let table = summary(rsum);
        add_stage(&store, &mut run, ["test", "evaluate", "joint"], json!({ "methods": ["nns"] }), Some(&table));
        let [stage, table, metric, of] = ["test", "summary", "rsum", "nns"].map(str::to_owned);
        run.scores = vec![ScoreRecord { stage, table, metric, of, value: rsum }];
        run.save(&store).unwrap();
    }
}

/// Seconds of a command on a store, the best of several times.
fn seconds(store: &Path, arguments: &[&str], times: usize) -> f64 {
    let once = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pairloom"));
        command.args(arguments).arg("--store").arg(store).stdout(Stdio::null()).stderr(Stdio::null());
        let clock = Instant::now();
        let status = command.status().unwrap();
        assert!(status.success(), "`pairloom {}` failed", arguments.join(" "));
        clock.elapsed().as_secs_f64()
    };
    (0..times).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// Times of commands on stores of different sizes.
fn growth() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.toml");
    std::fs::write(&file, "[stage.pairs.ingest]\nsynthetic = { train = 20, val = 5, test = 5 }\n").unwrap();
    let file = file.to_str().unwrap();
    let commands: [(&str, &[&str]); 7] = [
        ("run that changes nothing", &["run", file]),
        ("plan", &["plan", file]),
        ("sql, one table of a run", &["sql", "SELECT rsum FROM test.summary", "--pipeline", "study07"]),
        ("store.runs", &["sql", "SELECT pipeline, max(score) FROM store.runs GROUP BY 1"]),
        ("store.artefacts", &["sql", "SELECT count(*) FROM store.artefacts"]),
        ("runs", &["runs"]),
        ("gc, preview", &["gc"]),
    ];
    println!("seconds, best of 3, by number of runs (artefacts)");
    let stores = GROWTH.map(|runs| {
        let store = folder.path().join(runs.to_string());
        write_store(&store, runs, FURTHER);
        // The first run builds the result of the small pipeline.
        seconds(&store, &["run", file], 1);
        let artefacts = RUN_STAGES * runs;
        print!("{:>20}", format!("{runs} ({artefacts})"));
        store
    });
    println!();
    for (name, arguments) in commands {
        print!("{name:26}");
        for store in &stores {
            print!("{:>12.3}", seconds(store, arguments, 3));
        }
        println!();
    }
}

fn main() {
    if std::env::args().any(|argument| argument == "--growth") {
        return growth();
    }
    let folder = tempfile::tempdir().unwrap();
    write_store(folder.path(), RUNS, 0);
    let names: Vec<String> =
        RunLog::open(&Store::open(folder.path()).unwrap()).unwrap().readable().map(|run| run.run.clone()).collect();
    let commands: [(&str, Vec<&str>); 10] = [
        ("start and end of a process", vec!["--version"]),
        ("runs", vec!["runs"]),
        ("diff of two runs", vec!["diff", &names[PIPELINES], &names[0]]),
        ("diff of a pipeline's last two", vec!["diff", "study07~1", "study07"]),
        ("gc, preview", vec!["gc"]),
        ("SHOW TABLES", vec!["sql", "SHOW TABLES"]),
        ("store.runs", vec!["sql", "SELECT pipeline, max(score) FROM store.runs GROUP BY 1"]),
        ("store.lineage", vec!["sql", "SELECT count(*) FROM store.lineage"]),
        ("all_runs", vec!["sql", "SELECT pipeline, max(rsum) FROM all_runs.summary GROUP BY 1"]),
        (
            "all_runs, by settings",
            vec![
                "sql",
                "SELECT settings['fit.loss'] AS loss, avg(rsum) FROM all_runs.summary WHERE settings['fit.seed'] > 9 GROUP BY 1",
            ],
        ),
    ];
    println!("{RUNS} runs of {PIPELINES} pipelines, seconds, best of {TIMES}");
    for (name, arguments) in commands {
        println!("{name:32} {:.3}", seconds(folder.path(), &arguments, TIMES));
    }
}
