//! Benchmark of SQL over vectors and rankings, compared with `DuckDB`, `DataFusion`'s own functions, FAISS and numpy.
//!
//! 20,000 vectors of 1,024 × f32: the ten nearest of one query, and of 1,000 queries (a top-k join). Recall at 5 of
//! ten million rows of rankings: two groupings. Two threads. Tables are those of a stage in a store. Queries of vectors
//! are measured with the vector cache of the session, with Parquet files in the page cache, and with files out of it.
//! The peers are in `benches/sql_peer.py`, and run if the environment variable `PAIRLOOM_PEER_PYTHON` names an
//! interpreter with numpy, pyarrow, faiss, duckdb and datafusion. Pairloom and its peers run in alternation, and the
//! median counts.
//!
//! Run: `cargo bench --bench sql`. It writes 600 MB of temporary files, and removes them. `-- --part of_10,000,000` runs
//! the parts whose title has these words, and `--peer faiss` only the peers whose name has. `-- --part row_of_an_id` is not
//! among the others: it writes 8 GB, a million vectors of 2,048 × f32, and reads single rows of them.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark measures time and prints")]
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a benchmark may panic, and printed numbers need not be exact"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, FixedSizeListArray, Float32Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema};
use pairloom_kernels::random::Rng;
use pairloom_query::{Session, StageArtefact, VECTOR_CACHE_BYTES};
use pairloom_storage::parquet;
use pairloom_store::key::ArtefactIdentity;
use pairloom_store::{Artefact, BlockDigests, Manifest, Part, Store};
use pairloom_tables as tables;

#[path = "shared/processes.rs"]
mod processes;

const ITEMS: usize = 20_000;
const QUERIES: usize = 1_000;
const WIDTH: usize = 1_024;
/// Vectors of a part: 16 MB, as stages write them.
const PART: usize = 4_096;
/// Queries of the ranking rows, of which each has ten rows a method and direction.
const RANKED: usize = 250_000;
const METHODS: [&str; 2] = ["nns", "csls"];
const DIRECTIONS: [&str; 2] = ["i2t", "t2i"];
/// Rounds of each program. The first is a warm-up.
const ROUNDS: usize = 6;

const RECALL: &str = "SELECT method, direction, avg(hit) AS recall FROM (SELECT method, direction, query_id, \
    max(CASE WHEN is_positive AND rank <= 5 THEN 1 ELSE 0 END) AS hit FROM bench.rankings GROUP BY method, direction, query_id) t \
    GROUP BY method, direction ORDER BY method, direction";
const ROWS: &str = "SELECT method, direction, rank, count(*) AS rows, avg(CASE WHEN is_positive THEN 1.0 ELSE 0.0 END) AS \
    share FROM bench.rankings GROUP BY method, direction, rank ORDER BY method, direction, rank";

fn main() {
    processes::run_as_the_program(2);
    let words = |name: &str| {
        let value = std::env::args().skip_while(|argument| argument != name).nth(1);
        value.map(|words| words.replace('_', " "))
    };
    let (part, only_peer) = (words("--part"), words("--peer"));
    let folder = tempfile::tempdir().unwrap();
    if part.as_ref().is_some_and(|part| ROW_OF_AN_ID.contains(part.as_str())) {
        return row_of_an_id(folder.path());
    }
    let stage = write_tables(folder.path());
    let store = Store::open(&folder.path().join("store")).unwrap();
    let open = || Session::of_stages(&store, [stage.clone()]).unwrap();
    let (caching, reading) = (open().with_vector_cache(VECTOR_CACHE_BYTES), open());
    let nearest = "SELECT id FROM bench.items ORDER BY cosine_distance(embedding, (SELECT embedding FROM bench.queries \
        WHERE id = 0)) LIMIT 10";
    let join = "SELECT q.id AS query, i.id AS item FROM bench.queries q, LATERAL (SELECT id, cosine_distance(i.embedding, \
        q.embedding) AS d FROM bench.items i ORDER BY d LIMIT 10) i ORDER BY query, d";
    let mut peer = SqlPeer::start(folder.path());
    for (title, sql, peers) in [
        (
            "ten nearest of one query",
            nearest,
            &["one numpy", "one faiss", "one duckdb", "one duckdb parquet", "one datafusion"][..],
        ),
        (
            "ten nearest of 1,000 queries",
            join,
            &["join faiss", "join duckdb", "join duckdb parquet", "join datafusion"],
        ),
        ("recall at 5 of 10,000,000 rows, by query", RECALL, &["recall duckdb"]),
        ("rows by rank of 10,000,000 rows", ROWS, &["rows duckdb"]),
    ] {
        if part.as_ref().is_some_and(|part| !title.contains(part.as_str())) {
            continue;
        }
        println!("\n{title}");
        let is_wanted = |peer: &&str| only_peer.as_ref().is_none_or(|words| peer.contains(words));
        let peers: Vec<&str> = peers.iter().copied().filter(is_wanted).collect();
        let mut ours = [Measured::default(), Measured::default()];
        let mut theirs: Vec<Measured> = peers.iter().map(|_| Measured::default()).collect();
        for round in 0..ROUNDS {
            for (measured, session) in ours.iter_mut().zip([&caching, &reading]) {
                measured.add(run(session, sql));
            }
            for (name, measured) in peers.iter().zip(&mut theirs) {
                // What takes minutes hardly varies.
                let is_slow = measured.times.first().is_some_and(|&seconds| seconds > 5.0);
                if let Some(peer) = peer.as_mut().filter(|_| round < 2 || !is_slow) {
                    measured.add(peer.run(name));
                }
            }
        }
        let [own, read] = ours.each_ref().map(|measured| median(&measured.times));
        println!("{:<34} {own:>9.4} s", "Pairloom");
        if title.starts_with("ten nearest") {
            let cold: Vec<f64> = (0..ROUNDS)
                .map(|_| {
                    drop_from_cache(folder.path());
                    run(&reading, sql).0
                })
                .collect();
            println!("{:<34} {read:>9.4} s", "Pairloom, from Parquet");
            println!("{:<34} {:>9.4} s", "Pairloom, from Parquet, cold", median(&cold));
        }
        let [ours, _] = ours;
        for (name, measured) in peers.iter().zip(&theirs).filter(|(_, measured)| !measured.times.is_empty()) {
            let seconds = median(&measured.times);
            let same = ours.answer.iter().zip(&measured.answer).filter(|(a, b)| a == b).count();
            println!(
                "{name:<34} {seconds:>9.4} s, Pairloom takes {:.3} of it; {same} of {} rows are equal",
                own / seconds,
                measured.answer.len()
            );
        }
    }
}

/// Title of a part.
const ROW_OF_AN_ID: &str = "row of an id among 1,000,000";

/// Reads single rows of a million vectors of 2,048 values, one statement each, after a first one.
fn row_of_an_id(folder: &Path) {
    const ROWS: usize = 1_000_000;
    const WIDE: usize = 2_048;
    const OF_PART: usize = 2_048;
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    let vector = DataType::FixedSizeList(Arc::clone(&item), WIDE as i32);
    let fields = vec![Field::new("image_id", DataType::Int64, false), Field::new("feature", vector, false)];
    let schema = Arc::new(Schema::new(fields));
    let mut rng = Rng::new(5, &[]);
    let part = |first: usize| {
        let count = OF_PART.min(ROWS - first);
        let values = (0..count * WIDE).map(|_| rng.uniform() as f32 - 0.5);
        let values: ArrayRef = Arc::new(Float32Array::from_iter_values(values));
        let list = FixedSizeListArray::new(Arc::clone(&item), WIDE as i32, values, None);
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(first as i64..(first + count) as i64));
        tables::batch(&schema, vec![ids, Arc::new(list)]).unwrap()
    };
    let store = Store::open(&folder.join("store")).unwrap();
    let stage = write_stage(&store, BTreeMap::from([("features", (0..ROWS).step_by(OF_PART).map(part))]), None);
    let session = Session::of_stages(&store, [stage]).unwrap();
    println!("\n{ROW_OF_AN_ID}");
    let mut times = Vec::new();
    for round in 0..100 {
        let id = round * 7_919 % ROWS;
        let clock = Instant::now();
        let sql = format!("SELECT image_id, feature FROM bench.features WHERE image_id = {id}");
        let rows: Vec<_> = session.query(&sql).unwrap().map(Result::unwrap).collect();
        times.push(clock.elapsed().as_secs_f64());
        let found: Vec<i64> =
            rows.iter().flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
        assert_eq!(found, [id as i64]);
    }
    println!("{:<34} {:>9.4} s", "the first", times[0]);
    println!("{:<34} {:>9.4} s", "another, median", median(&times));
}

/// Times and answer of a program.
#[derive(Default)]
struct Measured {
    times: Vec<f64>,
    answer: Vec<String>,
}

impl Measured {
    fn add(&mut self, (seconds, answer): (f64, Vec<String>)) {
        self.times.push(seconds);
        self.answer = answer;
    }
}

/// Runs a query. Returns its time in seconds, and its rows as text.
fn run(session: &Session, sql: &str) -> (f64, Vec<String>) {
    let clock = Instant::now();
    let batches: Vec<_> = session.query(sql).unwrap().map(Result::unwrap).collect();
    let seconds = clock.elapsed().as_secs_f64();
    let mut answer = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let mut line = String::new();
            for column in batch.columns() {
                let value = match column.data_type() {
                    DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
                    DataType::Float64 => format!("{:.9}", column.as_primitive::<Float64Type>().value(row)),
                    _ => column.as_string::<i32>().value(row).to_owned(),
                };
                write!(line, "{value} ").unwrap();
            }
            answer.push(line.trim_end().to_owned());
        }
    }
    (seconds, answer)
}

/// Random values of `count` vectors.
fn vectors(count: usize, seed: u64) -> Vec<f32> {
    let mut rng = Rng::new(seed, &[]);
    (0..count * WIDTH).map(|_| rng.uniform() as f32 - 0.5).collect()
}

/// Writes the tables as a stage of a store does, and as files for the peers.
fn write_tables(folder: &Path) -> StageArtefact {
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    let vector = DataType::FixedSizeList(Arc::clone(&item), WIDTH as i32);
    let schema =
        Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("embedding", vector, false)]));
    let mut tables = BTreeMap::new();
    for (name, count, seed) in [("items", ITEMS, 1), ("queries", QUERIES, 3)] {
        let values: ArrayRef = Arc::new(Float32Array::from(vectors(count, seed)));
        let list = FixedSizeListArray::new(Arc::clone(&item), WIDTH as i32, values, None);
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..count as i64));
        let batch = tables::batch(&schema, vec![ids, Arc::new(list)]).unwrap();
        let parts = (0..count).step_by(PART).map(|row| batch.slice(row, PART.min(count - row)));
        tables.insert(name, parts.collect::<Vec<_>>());
    }
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    let schema = Arc::new(Schema::new(vec![
        field("method", DataType::Utf8),
        field("direction", DataType::Utf8),
        field("query_id", DataType::Int64),
        field("rank", DataType::Int64),
        field("item_id", DataType::Int64),
        field("score", DataType::Float32),
        field("is_positive", DataType::Boolean),
    ]));
    let mut rng = Rng::new(4, &[]);
    let mut batches = Vec::new();
    for (method, direction) in METHODS.iter().flat_map(|method| DIRECTIONS.map(|direction| (*method, direction))) {
        let rows = RANKED * 10;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec![method; rows])),
            Arc::new(StringArray::from(vec![direction; rows])),
            Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| row / 10))),
            Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| row % 10 + 1))),
            Arc::new(Int64Array::from_iter_values((0..rows).map(|_| rng.uniform_below(RANKED) as i64))),
            Arc::new(Float32Array::from_iter_values((0..rows).map(|_| rng.uniform() as f32))),
            Arc::new(BooleanArray::from_iter((0..rows).map(|_| Some(rng.uniform() < 0.1)))),
        ];
        batches.push(tables::batch(&schema, columns).unwrap());
    }
    tables.insert("rankings", batches);
    let store = Store::open(&folder.join("store")).unwrap();
    write_stage(&store, tables, Some(folder))
}

/// Writes the tables of a stage, and copies of their files into folders of `copies`.
fn write_stage(
    store: &Store,
    tables: BTreeMap<&str, impl IntoIterator<Item = RecordBatch>>,
    copies: Option<&Path>,
) -> StageArtefact {
    let settings = serde_json::json!({});
    let identity = ArtefactIdentity { kind: "embed".to_owned(), version: 1, settings, inputs: BTreeMap::new() };
    let key = identity.key();
    let mut written = BTreeMap::new();
    for (name, batches) in tables {
        let copies = copies.map(|copies| copies.join(name));
        if let Some(folder) = &copies {
            std::fs::create_dir(folder).unwrap();
        }
        let mut parts = Vec::new();
        for (index, batch) in batches.into_iter().enumerate() {
            let content = parquet::encode(&batch.schema(), std::slice::from_ref(&batch)).unwrap();
            let object = Artefact::part_name(name, index);
            store.objects().put(&format!("embed/{key}/{object}"), content.clone()).unwrap();
            if let Some(folder) = &copies {
                std::fs::write(folder.join(format!("{index}.parquet")), &content).unwrap();
            }
            let digest = blake3::hash(&content).to_hex().to_string();
            let blocks = BlockDigests::of(&content);
            let (rows, bytes) = (batch.num_rows() as u64, content.len() as u64);
            parts.push(Part { index, rows, bytes, digest, blocks, key: None });
        }
        written.insert(name.to_owned(), parts);
    }
    let manifest = Manifest {
        identity,
        tables: written,
        files: BTreeMap::new(),
        row_keys: BTreeMap::new(),
        warnings: vec![],
        seconds: 1.0,
        finished: jiff::Timestamp::UNIX_EPOCH,
        pairloom: String::new(),
    };
    store.objects().put(&format!("embed/{key}/manifest.json"), serde_json::to_vec(&manifest).unwrap().into()).unwrap();
    StageArtefact { name: "bench".to_owned(), coordinates: vec![], kind: "embed".to_owned(), key }
}

/// Removes all files of a folder from the page cache.
fn drop_from_cache(folder: &Path) {
    for file in
        walkdir::WalkDir::new(folder).into_iter().map(Result::unwrap).filter(|entry| entry.file_type().is_file())
    {
        let mut command = Command::new("dd");
        command.arg(format!("if={}", file.path().display())).args(["iflag=nocache", "count=0", "status=none"]);
        assert!(command.status().unwrap().success());
    }
}

/// Process of the peers.
struct SqlPeer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl SqlPeer {
    fn start(folder: &Path) -> Option<Self> {
        let Ok(python) = std::env::var("PAIRLOOM_PEER_PYTHON") else {
            println!("peers skipped: `PAIRLOOM_PEER_PYTHON` names no interpreter");
            return None;
        };
        let mut command = processes::peer(&python);
        command.arg(test_data::root().join("benches/sql_peer.py")).arg(folder);
        command.args([RECALL, ROWS]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Some(Self { child, input, output })
    }

    fn run(&mut self, task: &str) -> (f64, Vec<String>) {
        writeln!(self.input, "{task}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for SqlPeer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Median without the first, which is a warm-up.
fn median(times: &[f64]) -> f64 {
    let mut times = times[usize::from(times.len() > 1)..].to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
