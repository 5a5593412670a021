//! Tests of a pipeline of real stages whose machine loses power while it runs and trains, with any content that
//! the disk may then have.
//!
//! The run makes some 400 calls. A test run cuts at some 120 of them, with one disk each; with `PAIRLOOM_POWER_DRAWS=N`, at
//! each call, with N drawn disks and the two extreme ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::run_stage;
use pairloom_base::error::Result;
use pairloom_base::runtime::{CancelToken, Device};
use pairloom_engine::event::Event;
use pairloom_engine::inputs::CacheOptions;
use pairloom_engine::ranks::RankOptions;
use pairloom_engine::run::{RunOptions, execute};
use pairloom_kernels::random::Rng;
use pairloom_registry::AnyStage;
use pairloom_stage::plan::{Plan, PlanNode};
use pairloom_storage::objects::ObjectStorage;
use pairloom_storage::objects::power_cut::{RecordedCalls, Survival};
use pairloom_store::record::{RunCommand, RunLog, RunOutcome, RunRecord};
use pairloom_store::{ProcessIdentity, Store};

/// Share of the calls around no state, manifest or record at which a test run cuts: one in so many.
const SPACING: usize = 10;

/// Stages of the pipeline. The training makes three steps an epoch, and saves a state after its steps 2, 3, 4 and 6.
const STAGES: [(&str, &str); 5] = [
    ("pairs", "[ingest]\nsynthetic = { train = 8, val = 2, test = 2, pixels = 32 }"),
    (
        "cnn",
        "[extract]\nimages = \"pairs.images\"\nnetwork = \"squeezenet1_1\"\nweights = \"random\"\nresize = 32\ncrop = 32",
    ),
    (
        "fit",
        "[train]\nfeatures = \"cnn.features\"\ncaptions = \"pairs.captions\"\nmodel.vse.embed_size = 4\n\
         model.vse.word_dim = 4\nbatch_size = 16\nmin_count = 1\nepochs = 2\ncheckpoint_steps = 2",
    ),
    (
        "joint",
        "[embed]\nmodel = \"fit.model\"\nfeatures = \"cnn.features\"\ncaptions = \"pairs.captions\"\nsplits = [\"test\"]",
    ),
    (
        "test",
        "[evaluate]\nimages = \"joint.image_embeddings\"\ncaptions = \"joint.caption_embeddings\"\ndataset = \"tiny\"",
    ),
];

/// States that the training saves.
const STATES: usize = 4;

fn training_pipeline() -> Plan<AnyStage> {
    let node = |(name, text): (&str, &str)| PlanNode {
        name: name.to_owned(),
        coordinates: vec![],
        stage: toml::from_str::<AnyStage>(text).unwrap(),
    };
    Plan::new(STAGES.into_iter().map(node).collect()).unwrap()
}

/// Store in `folder` whose calls are recorded.
fn recorded_store(folder: &Path) -> (Store, Arc<RecordedCalls>) {
    let folder = folder.join("v1");
    std::fs::create_dir_all(&folder).unwrap();
    let calls = Arc::new(RecordedCalls::new(&folder));
    let objects = ObjectStorage::with_calls(&folder, calls.clone());
    (Store::with_objects(objects, ProcessIdentity::new(None)), calls)
}

/// Disks to draw for each cut, from `PAIRLOOM_POWER_DRAWS`; `None` in a test run.
fn draws() -> Option<u64> {
    let asked = std::env::var("PAIRLOOM_POWER_DRAWS").ok()?;
    Some(asked.parse().expect("`PAIRLOOM_POWER_DRAWS` is a number"))
}

/// Options of a run with a cache in `folder`. Two threads, as in the tests of stages: libtorch has one number for the whole
/// process.
fn options(folder: &Path) -> RunOptions {
    RunOptions {
        pipeline: "tiny.toml".to_owned(),
        command: RunCommand::default(),
        threads: 2,
        jobs: 1,
        keep_going: false,
        trust_folder_times: false,
        memory: 64 << 20,
        device: Device::Cpu,
        cache: CacheOptions { folder: Some(folder.join("cache")), limit: 1 << 30 },
        ranks: RankOptions::default(),
        remote: None,
    }
}

/// Parts of tables and files of models in the store in `folder`.
fn results(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let (store, mut results) = (folder.join("v1"), BTreeMap::new());
    for entry in walkdir::WalkDir::new(&store) {
        let entry = entry.unwrap();
        let name = entry.path().strip_prefix(&store).unwrap().to_string_lossy().into_owned();
        if entry.file_type().is_file() && (name.ends_with(".parquet") || name.contains("/model/")) {
            results.insert(name, std::fs::read(entry.path()).unwrap());
        }
    }
    results
}

/// Promises that the events of a run have made after a number of calls.
#[derive(Debug, Clone, Default)]
struct Promises {
    calls: usize,
    /// Committed rows of each stage.
    rows: BTreeMap<String, u64>,
    finished: BTreeSet<String>,
    /// States of the training.
    states: usize,
    /// Run whose record is there, and true if that says that the run has finished.
    record: Option<(String, bool)>,
}

impl Promises {
    /// Adds those of an event. Returns false if it makes none.
    fn add(&mut self, event: &Event) -> bool {
        match event {
            Event::RunStarted { run, .. } => self.record = Some((run.clone(), false)),
            Event::RunFinished { run, .. } => self.record = Some((run.clone(), true)),
            Event::PartCommitted { stage, rows, .. } => *self.rows.entry(stage.clone()).or_default() += rows,
            Event::StateSaved { stage, .. } if stage == "fit" => self.states += 1,
            Event::StageFinished { stage, .. } => _ = self.finished.insert(stage.clone()),
            _ => return false,
        }
        true
    }
}

/// True if a run depends on a file most: a state, a manifest, or the record of a run, also under its first name.
fn is_critical(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_record = path.parent().is_some_and(|folder| folder.ends_with("runs"));
    name.starts_with("state-") || name.starts_with("manifest.json") || is_record
}

/// Numbers of calls after which the power fails: before and after each call of a critical file, after the sync that follows
/// it, and some of the others.
fn cuts(paths: &[PathBuf]) -> BTreeSet<usize> {
    if draws().is_some() {
        return (0..=paths.len()).collect();
    }
    let critical = paths.iter().enumerate().filter(|(_, path)| is_critical(path));
    let around = critical.flat_map(|(call, _)| [call, call + 1, call + 2]);
    let others = (0..paths.len()).filter(|&call| Rng::new(20, &[call as u64]).uniform_below(SPACING) == 0);
    around.chain(others).chain([0, paths.len()]).filter(|&cut| cut <= paths.len()).collect()
}

/// Disks after a cut.
fn survivals(cut: usize) -> Vec<Survival> {
    let seed = cut as u64;
    match draws() {
        Some(draws) => {
            let drawn = (0..draws).map(|draw| Survival::Drawn(1000 * seed + draw));
            [Survival::Nothing, Survival::Names].into_iter().chain(drawn).collect()
        }
        None => vec![match cut % 4 {
            0 => Survival::Nothing,
            1 => Survival::Names,
            _ => Survival::Drawn(seed),
        }],
    }
}

/// Stages that a run started, with the rows that it found, and the number of states that its training saved.
fn run_in(folder: &Path, store: &Store, place: &str) -> (BTreeMap<String, u64>, usize) {
    let seen: Mutex<(BTreeMap<String, u64>, usize)> = Mutex::default();
    let observer = |event: &Event| {
        let mut seen = seen.lock().unwrap();
        let (started, saved) = &mut *seen;
        match event {
            Event::StageStarted { stage, resumed_rows, .. } => _ = started.insert(stage.clone(), *resumed_rows),
            Event::StateSaved { stage, .. } if stage == "fit" => *saved += 1,
            _ => {}
        }
    };
    let summary =
        execute(&training_pipeline(), run_stage, store, &options(folder), &CancelToken::new(), &observer).unwrap();
    assert!(summary.error.is_none(), "{place}: {:?}", summary.error);
    seen.into_inner().unwrap()
}

/// Runs the pipeline on a disk after a cut, and checks that it finds what was promised. Returns the number of the state from
/// which the training went on, 0 if from none.
fn recover(folder: &Path, promised: &Promises, place: &str) -> usize {
    let (store, _) = recorded_store(folder);
    let log = RunLog::open(&store).unwrap();
    let readable = |record: Result<&RunRecord>| record.unwrap_or_else(|error| panic!("{place}: {error}")).clone();
    let records: Vec<RunRecord> = log.iter().map(readable).collect();
    if let Some((run, is_finished)) = &promised.record {
        let record = records.iter().find(|record| record.run == *run);
        let record = record.unwrap_or_else(|| panic!("{place}: the record of {run} is lost"));
        assert!(!is_finished || record.outcome == RunOutcome::Finished, "{place}: {run} is {:?}", record.outcome);
    }
    let (started, saved) = run_in(folder, &store, place);
    for (stage, found) in &started {
        let expected = promised.rows.get(stage).copied().unwrap_or(0);
        assert!(*found >= expected, "{place}: `{stage}` goes on after {found} rows, and {expected} were committed");
        assert!(!promised.finished.contains(stage), "{place}: `{stage}` was finished and ran again");
    }
    // A training that resumes from a state saves only those after it.
    let kept = if started.contains_key("fit") { STATES - saved } else { STATES };
    assert!(kept >= promised.states, "{place}: resumed from state {kept}, and {} were saved", promised.states);
    kept
}

#[test]
fn after_a_power_cut_in_a_pipeline_and_its_training_nothing_announced_is_lost_and_a_run_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (store, calls) = recorded_store(folder.path());
    let announced = Mutex::new(vec![Promises::default()]);
    let observer = |event: &Event| {
        let mut announced = announced.lock().unwrap();
        let mut promised = announced.last().unwrap().clone();
        if promised.add(event) {
            announced.push(Promises { calls: calls.count(), ..promised });
        }
    };
    let options = options(folder.path());
    let summary = execute(&training_pipeline(), run_stage, &store, &options, &CancelToken::new(), &observer).unwrap();
    assert!(summary.error.is_none(), "{:?}", summary.error);
    let announced = announced.into_inner().unwrap();
    let all = announced.last().unwrap();
    assert_eq!((all.states, all.finished.len()), (STATES, STAGES.len()));
    let expected = results(folder.path());
    let cuts = cuts(&calls.paths());
    assert!(calls.count() > 250 && cuts.len() > 60, "{} cuts at {} calls", cuts.len(), calls.count());
    let mut resumed = [0; STATES + 1];
    for &cut in &cuts {
        let promised = announced.iter().rfind(|promised| promised.calls <= cut).unwrap();
        for survival in survivals(cut) {
            let disk = tempfile::tempdir().unwrap();
            calls.write_disk(cut, survival, &disk.path().join("v1"));
            let place = format!("{cut} of {} calls, {survival:?}", calls.count());
            resumed[recover(disk.path(), promised, &place)] += 1;
            let got = results(disk.path());
            assert!(got.keys().eq(expected.keys()), "{place}: {:?}, expected {:?}", got.keys(), expected.keys());
            let other = got.iter().filter(|(name, bytes)| expected[*name] != **bytes);
            let other: Vec<&String> = other.map(|(name, _)| name).collect();
            assert!(other.is_empty(), "{place}: other bytes in {other:?}");
        }
    }
    println!(
        "{} cuts in {} calls; trainings by the state that they went on from: {resumed:?}",
        cuts.len(),
        calls.count()
    );
    assert!(resumed.iter().all(|&runs| runs > 0), "no training resumed from one of the states: {resumed:?}");
}
