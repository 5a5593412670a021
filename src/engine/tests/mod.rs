//! Tests of complete runs of toy stages: reuse, crashes at every point, damage, concurrent runs, stores at URLs.

mod faulty;
mod changing_pictures;
mod reuse;
mod earlier_rows;
mod crash;
mod power;
mod power_gc;
mod damage;
mod wrong_reads;
mod at_url;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use crate::event::Event;
use crate::inputs::CacheOptions;
use crate::ranks::RankOptions;
use crate::run::{RunOptions, RunSummary, execute};
use crate::sources::SourceReading;
use crate::status::{StageStatus, stage_statuses};
use crate::testing::{ToyStage, node};
use pairloom_base::error::Result;
use pairloom_base::runtime::{CancelToken, Device};
use pairloom_stage::RunnableStage;
use pairloom_stage::plan::{Plan, PlanNode};
use pairloom_store::Store;

/// Plan of four stages: numbers below 45, two stages that add a constant to them, and the sums of one of these.
fn pipeline() -> Plan<ToyStage> {
    plan(vec![
        node("numbers", ToyStage::count(45)),
        node("more", ToyStage::add("numbers.rows", 100)),
        node("other", ToyStage::add("numbers.rows", 7)),
        node("sums", ToyStage::sum("more.rows")),
    ])
}

fn plan(nodes: Vec<PlanNode<ToyStage>>) -> Plan<ToyStage> {
    Plan::new(nodes).unwrap()
}

fn options() -> RunOptions {
    RunOptions {
        pipeline: "toy.toml".to_owned(),
        command: pairloom_store::record::RunCommand::default(),
        threads: 3,
        jobs: 1,
        keep_going: false,
        trust_folder_times: false,
        memory: 1 << 20,
        device: Device::Cpu,
        cache: CacheOptions { folder: None, limit: 0 },
        ranks: RankOptions::default(),
        remote: None,
    }
}

/// Runs a plan and returns the summary and the events.
fn run(plan: &Plan<ToyStage>, store: &Store) -> (RunSummary, Vec<Event>) {
    let events = Mutex::new(Vec::new());
    let observer = |event: &Event| events.lock().unwrap().push(event.clone());
    let summary = execute(plan, RunnableStage::run, store, &options(), &CancelToken::new(), &observer).unwrap();
    (summary, events.into_inner().unwrap())
}

fn statuses(plan: &Plan<ToyStage>, store: &Store) -> Vec<StageStatus> {
    stage_statuses(
        plan,
        store,
        "toy.toml",
        SourceReading { threads: 2, trusts_folder_times: false },
        &CancelToken::new(),
        &|_| {},
    )
    .unwrap()
}

/// Names of the stages that a run would start.
fn to_run(plan: &Plan<ToyStage>, store: &Store) -> Vec<String> {
    statuses(plan, store).into_iter().filter(|status| !status.is_reuse()).map(|status| status.name).collect()
}

/// Content of all parts and files of a store, by name.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut content = BTreeMap::new();
    for entry in walkdir::WalkDir::new(folder) {
        let entry = entry.unwrap();
        let name = entry.path().strip_prefix(folder).unwrap().to_string_lossy().into_owned();
        if entry.file_type().is_file() && (name.ends_with(".parquet") || name.ends_with(".txt")) {
            content.insert(name, std::fs::read(entry.path()).unwrap());
        }
    }
    content
}

/// Content of a store after an undisturbed run of [`pipeline`].
fn expected() -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let (summary, _) = run(&pipeline(), &Store::open(folder.path()).unwrap());
    assert!(summary.error.is_none());
    content(folder.path())
}

fn rows(store: &Store, stage: &StageStatus, table: &str) -> Result<Vec<i64>> {
    let artefact = stage.artefact(store);
    let mut all = Vec::new();
    for part in &artefact.manifest()?.unwrap().tables[table] {
        let content =
            artefact.read(&pairloom_store::Artefact::part_name(table, part.index), part.bytes, &part.digest)?;
        for batch in pairloom_storage::parquet::decode(content)? {
            all.extend_from_slice(pairloom_tables::int_column(&batch?, "x")?.values());
        }
    }
    Ok(all)
}
