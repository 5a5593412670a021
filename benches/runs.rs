//! Benchmark of commands and queries about many runs: 1,000 runs of 20 pipelines. With `-- --growth`, stores of 100, 1,000
//! and 10,000 runs, the last of which have 100,000 artefacts, and tables of up to 10 million rows in 10,000 parts.
//!
//! Each run has five stages, or twelve with `--growth`. Its training and evaluation are its own; data and features are those
//! of its pipeline. The files are like those of `pipelines/quickstart.toml`, without the tables that the commands do not
//! read. Each command is a process of its own, with all files in the page cache, and the best of five times is printed. The
//! limit is the reading of 1,000 records, and for queries over all runs of 1,000 manifests and 1,000 Parquet files. One more
//! process only starts and ends.
//!
//! `--growth` also prints the most memory that a command had, as the system counts it (`VmHWM`), looked up each millisecond.
//!
//! Run: `cargo bench --bench runs`, and `cargo bench --bench runs -- --growth`.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures time, starts processes and prints"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray, UInt32Array};
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::{DataType, FieldRef};
use bytes::Bytes;
use pairloom_storage::parquet;
use pairloom_store::key::{ArtefactIdentity, InputIdentity};
use pairloom_store::record::RunLog;
use pairloom_store::record::{RunCommand, RunOutcome, RunRecord, ScoreRecord, StageRecord};
use pairloom_store::{Artefact, BlockDigests, Manifest, Part, Store};
use pairloom_tables as tables;
use serde_json::{Value, json};

#[path = "shared/memory.rs"]
mod memory;

/// Number of runs.
const RUNS: usize = 1000;
/// Numbers of runs that show how times grow.
const GROWTH: [usize; 3] = [100, 1_000, 10_000];
/// Further artefacts of each of these runs.
const FURTHER: usize = 7;
/// Artefacts of a run that are its own: training, embeddings, evaluation and the further ones.
const RUN_STAGES: usize = 3 + FURTHER;
/// Rows and parts of tables that show how times grow.
const TABLES: [(usize, usize); 3] = [(100_000, 100), (1_000_000, 1_000), (10_000_000, 10_000)];
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
    cost(store, arguments, times).seconds
}

/// Cost of a command.
struct Cost {
    seconds: f64,
    /// Most memory, in bytes.
    peak: u64,
}

/// Cost of a command on a store: the best time and the largest memory of several times.
fn cost(store: &Path, arguments: &[&str], times: usize) -> Cost {
    let mut best = Cost { seconds: f64::INFINITY, peak: 0 };
    for _ in 0..times {
        let mut command = Command::new(test_data::program("pairloom"));
        command.args(arguments).arg("--store").arg(store).stdout(Stdio::null()).stderr(Stdio::null());
        let clock = Instant::now();
        let mut child = command.spawn().unwrap();
        let process = child.id().to_string();
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let peak = scope.spawn(|| {
                let mut peak = 0;
                while !has_ended.load(Ordering::Relaxed) {
                    peak = peak.max(memory::peak(&process));
                    std::thread::sleep(Duration::from_millis(1));
                }
                peak
            });
            let ended = child.wait().unwrap();
            best.seconds = best.seconds.min(clock.elapsed().as_secs_f64());
            has_ended.store(true, Ordering::Relaxed);
            best.peak = best.peak.max(peak.join().unwrap());
            assert!(ended.success(), "`pairloom {}` failed", arguments.join(" "));
        });
    }
    best
}

/// A line for each command: its seconds and its memory for each store.
fn print_costs(stores: &[PathBuf], commands: &[(&str, Vec<&str>)], times: usize) {
    for (name, arguments) in commands {
        let costs: Vec<Cost> = stores.iter().map(|store| cost(store, arguments, times)).collect();
        let cells = costs.iter().map(|cost| format!(" {:>9.3} s {:>6} MB", cost.seconds, cost.peak / 1_000_000));
        println!("{name:28}{}", cells.collect::<String>());
    }
}

/// Costs of commands on stores with more and more runs.
fn growth_of_runs(folder: &Path) {
    let file = small_pipeline(folder);
    let file = file.to_str().unwrap();
    println!("runs and artefacts: {}", GROWTH.map(|runs| format!("{runs}, {}", RUN_STAGES * runs)).join("; "));
    let stores = GROWTH.map(|runs| {
        let store = folder.join(runs.to_string());
        write_store(&store, runs, FURTHER);
        // The first run builds the result of the small pipeline.
        seconds(&store, &["run", file], 1);
        store
    });
    let commands = [
        ("run that changes nothing", vec!["run", file]),
        ("plan", vec!["plan", file]),
        ("sql, one table of a run", vec!["sql", "SELECT rsum FROM test.summary", "--pipeline", "study07"]),
        ("store.runs", vec!["sql", "SELECT pipeline, max(score) FROM store.runs GROUP BY 1"]),
        ("store.artefacts", vec!["sql", "SELECT count(*) FROM store.artefacts"]),
        ("runs", vec!["runs"]),
        ("gc, preview", vec!["gc"]),
    ];
    print_costs(&stores, &commands, 3);
    // Of each pipeline one of 5, 50 or 500 runs stays. The next removal has little to look at.
    print_costs(&stores, &[("gc --delete, first", vec!["gc", "--delete", "--keep-runs", "1"])], 1);
    print_costs(&stores, &[("gc --delete, again", vec!["gc", "--delete", "--keep-runs", "1"])], 1);
}

/// Costs of commands on a table with more and more rows and parts.
fn growth_of_tables(folder: &Path) {
    let file = small_pipeline(folder);
    let file = file.to_str().unwrap();
    println!("rows and parts: {}", TABLES.map(|(rows, parts)| format!("{rows}, {parts}")).join("; "));
    let stores = TABLES.map(|(rows, parts)| {
        let store = folder.join(format!("{parts}-parts"));
        seconds(&store, &["run", file], 1);
        enlarge_captions(&Store::open(&store).unwrap(), rows, parts);
        store
    });
    let commands = [
        ("run that changes nothing", vec!["run", file]),
        ("plan", vec!["plan", file]),
        ("count(*)", vec!["sql", "SELECT count(*) FROM pairs.captions"]),
        ("one row", vec!["sql", "SELECT text FROM pairs.captions WHERE caption_id = 4321"]),
        (
            "a group over all rows",
            vec!["sql", "SELECT split, count(text), max(length(text)) FROM pairs.captions GROUP BY 1"],
        ),
        (
            "the first 10 of a sort",
            vec!["sql", "SELECT text, caption_id FROM pairs.captions ORDER BY text, caption_id LIMIT 10"],
        ),
        ("verify", vec!["verify"]),
        ("gc, preview", vec!["gc"]),
    ];
    print_costs(&stores, &commands, 3);
}

/// Pipeline file with one small stage.
fn small_pipeline(folder: &Path) -> PathBuf {
    let file = folder.join("small.toml");
    std::fs::write(&file, "[stage.pairs.ingest]\nsynthetic = { train = 20, val = 5, test = 5 }\n").unwrap();
    file
}

/// Gives the captions of the small pipeline `rows` rows in `parts` parts, with ascending identifiers.
fn enlarge_captions(store: &Store, rows: usize, parts: usize) {
    let log = RunLog::open(store).unwrap();
    let stage = log.readable().next().unwrap().stages[0].clone();
    let folder = store.objects().folder().unwrap().join(&stage.kind).join(stage.key.to_string());
    let mut manifest: Manifest = serde_json::from_slice(&std::fs::read(folder.join("manifest.json")).unwrap()).unwrap();
    let part = |index: usize| folder.join(Artefact::part_name("captions", index));
    let few = parquet::decode_whole(std::fs::read(part(0)).unwrap().into()).unwrap();
    let of_part = rows / parts;
    let repeated: UInt32Array = (0..u32::try_from(few.num_rows()).unwrap()).cycle().take(of_part).collect();
    let few = take_record_batch(&few, &repeated).unwrap();
    let ids = few.schema().index_of("caption_id").unwrap();
    let table = manifest.tables.get_mut("captions").unwrap();
    table.clear();
    for index in 0..parts {
        let mut columns = few.columns().to_vec();
        let numbers = [index * of_part, (index + 1) * of_part].map(|number| i64::try_from(number).unwrap());
        columns[ids] = Arc::new(Int64Array::from_iter_values(numbers[0]..numbers[1]));
        let content = parquet::encode(&few.schema(), &[tables::batch(&few.schema(), columns).unwrap()]).unwrap();
        std::fs::write(part(index), &content).unwrap();
        let digest = blake3::hash(&content).to_hex().to_string();
        let (rows, bytes, blocks) = (of_part as u64, content.len() as u64, BlockDigests::of(&content));
        table.push(Part { index, rows, bytes, digest, blocks, key: None });
    }
    std::fs::write(folder.join("manifest.json"), serde_json::to_vec(&manifest).unwrap()).unwrap();
}

fn main() {
    if std::env::args().any(|argument| argument == "--growth") {
        let folder = tempfile::tempdir().unwrap();
        println!("best time of 3 and most memory");
        growth_of_tables(folder.path());
        return growth_of_runs(folder.path());
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
