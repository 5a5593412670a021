//! Tests of whole runs of toy stages: reuse, crashes at every point, damage, two processes at once, stores at URLs.

mod faulty;
mod reuse;
mod crash;
mod damage;
mod at_url;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use crate::engine::cache::CachePlace;
use crate::engine::event::Event;
use crate::engine::ranks::RankOptions;
use crate::engine::run::{Options, Summary, execute};
use crate::engine::status::{StageStatus, status};
use crate::engine::testing::{Toy, node};
use crate::error::Result;
use crate::plan::{Node, Plan};
use crate::runtime::{Cancel, Device};
use crate::store::Store;

/// Counts to 45, adds on two branches, and sums one of them up.
fn pipeline() -> Plan<Toy> {
    plan(vec![
        node("numbers", Toy::count(45)),
        node("more", Toy::add("numbers.rows", 100)),
        node("other", Toy::add("numbers.rows", 7)),
        node("sums", Toy::sum("more.rows")),
    ])
}

fn plan(nodes: Vec<Node<Toy>>) -> Plan<Toy> {
    Plan::new(nodes).unwrap()
}

fn options() -> Options {
    Options {
        pipeline: "toy.toml".to_owned(),
        threads: 3,
        memory: 1 << 20,
        device: Device::Cpu,
        cache: CachePlace { folder: None, limit: 0 },
        ranks: RankOptions::default(),
    }
}

/// Runs to the end; gives the summary, which holds the error if there was one, and the events.
fn run(plan: &Plan<Toy>, store: &Store) -> (Summary, Vec<Event>) {
    let events = Mutex::new(Vec::new());
    let observer = |event: &Event| events.lock().unwrap().push(event.clone());
    let summary = execute(plan, store, &options(), &Cancel::new(), &observer).unwrap();
    (summary, events.into_inner().unwrap())
}

fn statuses(plan: &Plan<Toy>, store: &Store) -> Vec<StageStatus> {
    status(plan, store, 2, &Cancel::new(), &|_| {}).unwrap()
}

/// Names of the stages that a run would start.
fn to_run(plan: &Plan<Toy>, store: &Store) -> Vec<String> {
    statuses(plan, store).into_iter().filter(|status| !status.is_reuse()).map(|status| status.name).collect()
}

/// Every table part and file of a store, by name.
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

/// What an undisturbed run of [`pipeline`] leaves.
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
        let content = artefact.read(&crate::store::Artefact::part_name(table, part.index), part.bytes, &part.digest)?;
        for batch in crate::io::parquet::decode(content)? {
            all.extend_from_slice(crate::tables::ids(&batch?, "x")?.values());
        }
    }
    Ok(all)
}
