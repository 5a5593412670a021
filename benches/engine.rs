//! Benchmark of the engine's overhead: rows through a stage that copies them.
//!
//! `make` writes rows of an id and a vector; `pass` copies them. Both use all that a real stage uses: Parquet, digests,
//! journal, publication, feed. For comparison, the same bytes are copied in memory, and written to and read from a
//! file.
//!
//! Run: `cargo bench --bench engine`; other sizes: `cargo bench --bench engine -- ROWS WIDTH`.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark measures time and prints")]

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use pairloom_base::error::Result;
use pairloom_base::runtime::{CancelToken, Device};
use pairloom_engine::event::Event;
use pairloom_engine::inputs::CacheOptions;
use pairloom_engine::ranks::RankOptions;
use pairloom_engine::run::RunOptions;
use pairloom_engine::run::execute;
use pairloom_kernels::random::Rng;
use pairloom_stage::plan::{Plan, PlanNode};
use pairloom_stage::{
    MapBlock, MapInput, MapOutput, RunnableStage, Stage, StageContext, StageInput, StageOutput, TableRef,
};
use pairloom_store::Store;
use pairloom_tables as tables;

#[path = "shared/memory.rs"]
mod memory;

/// Rows per part.
const PART_ROWS: usize = 4096;

#[derive(Debug)]
enum ThroughputStage {
    Make { rows: usize, width: usize },
    Pass { rows: TableRef },
}

fn schema(width: usize) -> SchemaRef {
    let vector = Field::new("vector", tables::vector_type(width), false);
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), vector]))
}

impl Stage for ThroughputStage {
    fn kind(&self) -> &'static str {
        match self {
            ThroughputStage::Make { .. } => "make",
            ThroughputStage::Pass { .. } => "pass",
        }
    }
    fn version(&self) -> u32 {
        1
    }
    fn settings(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
    fn inputs(&self) -> Vec<StageInput> {
        match self {
            ThroughputStage::Make { .. } => vec![],
            ThroughputStage::Pass { rows } => vec![StageInput::any_table("rows", rows, schema(0))],
        }
    }
    fn outputs(&self) -> Vec<StageOutput> {
        vec![StageOutput::table("rows", schema(0), PART_ROWS)]
    }
}

impl RunnableStage for ThroughputStage {
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
        match self {
            ThroughputStage::Make { rows, width } => {
                for start in (0..*rows).step_by(PART_ROWS) {
                    let n = PART_ROWS.min(rows - start);
                    cx.write("rows", random(start, n, *width)?)?;
                }
                Ok(())
            }
            ThroughputStage::Pass { .. } => {
                let copy = |block: &MapBlock| Ok(MapOutput::new(block.rows.clone()));
                cx.map(MapInput::Table("rows"), "rows", PART_ROWS, &copy).map(|_| ())
            }
        }
    }
}

fn random(start: usize, rows: usize, width: usize) -> Result<RecordBatch> {
    let mut rng = Rng::new(1, &[start as u64]);
    #[expect(clippy::cast_possible_truncation, reason = "the values need not be exact")]
    let values: Vec<f32> = (0..rows * width).map(|_| rng.uniform() as f32).collect();
    let ids: Vec<i64> = (0..rows).map(|i| i64::try_from(start + i).unwrap_or(i64::MAX)).collect();
    tables::batch(&schema(width), vec![Arc::new(Int64Array::from(ids)), tables::vector_array(values, width)?])
}

fn main() -> Result<()> {
    let numbers: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let rows = numbers.first().copied().unwrap_or(200_000);
    let width = numbers.get(1).copied().unwrap_or(256);
    let bytes = rows * (8 + 4 * width);
    let folder = std::env::temp_dir().join(format!("pairloom-bench-{}", std::process::id()));
    let store = Store::open(&folder)?;
    let plan = |with_pass: bool| {
        let mut nodes = vec![PlanNode {
            name: "make".to_owned(),
            coordinates: vec![],
            stage: ThroughputStage::Make { rows, width },
        }];
        if with_pass {
            let rows = TableRef::try_from("make.rows".to_owned()).expect("a table's name");
            nodes.push(PlanNode {
                name: "pass".to_owned(),
                coordinates: vec![],
                stage: ThroughputStage::Pass { rows },
            });
        }
        Plan::new(nodes).expect("a valid plan")
    };
    let options = RunOptions {
        pipeline: "bench".to_owned(),
        command: pairloom_store::record::RunCommand::default(),
        threads: 2,
        jobs: 1,
        keep_going: false,
        memory: 256 << 20,
        device: Device::Cpu,
        cache: CacheOptions { folder: None, limit: 0 },
        ranks: RankOptions::default(),
        remote: None,
        trust_folder_times: false,
    };
    let observer = |_: &Event| {};
    execute(&plan(false), RunnableStage::run, &store, &options, &CancelToken::new(), &observer)?;

    let clock = Instant::now();
    let summary = execute(&plan(true), RunnableStage::run, &store, &options, &CancelToken::new(), &observer)?;
    let pass = clock.elapsed().as_secs_f64();
    if let Some(error) = summary.error {
        return Err(error);
    }
    let peak_memory_mb = memory::peak("self") / 1_000_000;
    let (memory, disk) = baseline_seconds(bytes, &folder);
    let _ = std::fs::remove_dir_all(&folder);

    #[expect(clippy::cast_precision_loss, reason = "printed numbers need not be exact")]
    let (rows, mb) = (rows as f64, bytes as f64 / 1e6);
    println!("{rows} rows of an id and {width} f32, {mb:.0} MB, through a stage that copies them (2 threads)");
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

/// Returns the seconds to copy `bytes` in memory, and to write and read them as a file.
fn baseline_seconds(bytes: usize, folder: &std::path::Path) -> (f64, f64) {
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
