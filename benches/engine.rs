//! What the engine itself costs: rows through a stage that does nothing.
//!
//! `make` writes rows of an id and a vector; `pass` maps them to themselves. Both go through everything that a real stage
//! goes through: Parquet, digests, journal, publication, the feed. Beside it stands what the machine can do: a plain copy
//! of the same bytes in memory, and a plain write and read of a file of the same size.
//!
//! Run: `cargo bench --bench engine`; other sizes: `cargo bench --bench engine -- ROWS WIDTH`.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark measures time and prints")]

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use pairloom::engine::cache::CachePlace;
use pairloom::engine::event::Event;
use pairloom::engine::ranks::RankOptions;
use pairloom::engine::run::{Options, execute};
use pairloom::error::Result;
use pairloom::kernels::sample::Sample;
use pairloom::plan::{Node, Plan};
use pairloom::runtime::{Cancel, Device};
use pairloom::stage::{Block, Cx, Input, Mapped, Output, Over, Run, Stage, TableRef};
use pairloom::store::Store;
use pairloom::tables;

/// Rows of a part.
const PART_ROWS: usize = 4096;

#[derive(Debug)]
enum Toy {
    Make { rows: usize, width: usize },
    Pass { rows: TableRef },
}

fn schema(width: usize) -> SchemaRef {
    let vector = Field::new("vector", tables::vector(width), false);
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), vector]))
}

impl Stage for Toy {
    fn kind(&self) -> &'static str {
        match self {
            Toy::Make { .. } => "make",
            Toy::Pass { .. } => "pass",
        }
    }
    fn version(&self) -> u32 {
        1
    }
    fn settings(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
    fn inputs(&self) -> Vec<Input> {
        match self {
            Toy::Make { .. } => vec![],
            Toy::Pass { rows } => vec![Input::table("rows", rows, schema(0))],
        }
    }
    fn outputs(&self) -> Vec<Output> {
        vec![Output::table("rows", schema(0), PART_ROWS)]
    }
}

impl Run for Toy {
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        match self {
            Toy::Make { rows, width } => {
                for start in (0..*rows).step_by(PART_ROWS) {
                    let n = PART_ROWS.min(rows - start);
                    cx.write("rows", random(start, n, *width)?)?;
                }
                Ok(())
            }
            Toy::Pass { .. } => {
                let copy = |block: &Block| Ok(Mapped { batch: block.rows.clone(), warnings: vec![] });
                cx.map(Over::Rows("rows"), "rows", PART_ROWS, &copy)
            }
        }
    }
}

fn random(start: usize, rows: usize, width: usize) -> Result<RecordBatch> {
    let mut sample = Sample::new(1, &[start as u64]);
    #[expect(clippy::cast_possible_truncation, reason = "the values need not be exact")]
    let values: Vec<f32> = (0..rows * width).map(|_| sample.unit() as f32).collect();
    let ids: Vec<i64> = (0..rows).map(|i| i64::try_from(start + i).unwrap_or(i64::MAX)).collect();
    tables::batch(&schema(width), vec![Arc::new(Int64Array::from(ids)), tables::vectors(values, width)?])
}

fn main() -> Result<()> {
    let numbers: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let rows = numbers.first().copied().unwrap_or(200_000);
    let width = numbers.get(1).copied().unwrap_or(256);
    let bytes = rows * (8 + 4 * width);
    let folder = std::env::temp_dir().join(format!("pairloom-bench-{}", std::process::id()));
    let store = Store::open(&folder)?;
    let plan = |with_pass: bool| {
        let mut nodes = vec![Node { name: "make".to_owned(), stage: Toy::Make { rows, width } }];
        if with_pass {
            let rows = TableRef::try_from("make.rows".to_owned()).expect("a table's name");
            nodes.push(Node { name: "pass".to_owned(), stage: Toy::Pass { rows } });
        }
        Plan::new(nodes).expect("a plan without faults")
    };
    let options = Options {
        pipeline: "bench".to_owned(),
        threads: 2,
        memory: 256 << 20,
        device: Device::Cpu,
        cache: CachePlace { folder: None, limit: 0 },
        ranks: RankOptions::default(),
    };
    let observer = |_: &Event| {};
    execute(&plan(false), &store, &options, &Cancel::new(), &observer)?;

    let clock = Instant::now();
    let summary = execute(&plan(true), &store, &options, &Cancel::new(), &observer)?;
    let pass = clock.elapsed().as_secs_f64();
    if let Some(error) = summary.error {
        return Err(error);
    }
    let peak_memory_mb = peak_memory_mb();
    let (memory, disk) = limits(bytes, &folder);
    let _ = std::fs::remove_dir_all(&folder);

    #[expect(clippy::cast_precision_loss, reason = "numbers for people")]
    let (rows, mb) = (rows as f64, bytes as f64 / 1e6);
    println!("{rows} rows of an id and {width} f32, {mb:.0} MB, through a stage that passes them on (2 threads)");
    println!("engine            {:>12.0} rows/s {:>8.0} MB/s", rows / pass, mb / pass);
    println!(
        "copy in memory    {:>12.0} rows/s {:>8.0} MB/s   engine takes {:.1} times as long",
        rows / memory,
        mb / memory,
        pass / memory
    );
    println!(
        "file written+read {:>12.0} rows/s {:>8.0} MB/s   engine takes {:.1} times as long",
        rows / disk,
        mb / disk,
        pass / disk
    );
    println!(
        "peak bytes in flight {} MB, peak memory of the process {} MB",
        summary.peak_bytes_in_flight / 1_000_000,
        peak_memory_mb
    );
    Ok(())
}

/// Seconds to copy `bytes` in memory, and to write and read them as a file.
fn limits(bytes: usize, folder: &std::path::Path) -> (f64, f64) {
    let one = vec![1u8; bytes];
    let mut two = vec![2u8; bytes];
    let clock = Instant::now();
    two.copy_from_slice(&one);
    let memory = clock.elapsed().as_secs_f64();
    assert_eq!(two[bytes / 2], 1);
    drop(two);
    let path = folder.join("plain");
    let clock = Instant::now();
    std::fs::write(&path, &one).and_then(|()| std::fs::read(&path)).expect("a file in the folder of the benchmark");
    (memory, clock.elapsed().as_secs_f64())
}

/// The most memory that this process had, in MB, as Linux counts it.
fn peak_memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()).map_or(0, |kb| kb / 1024)
}
