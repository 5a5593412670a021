//! Tests of runs whose machine loses power: at any call of the file system, with any content that the disk may then have.

use std::sync::Arc;

use super::*;
use crate::status::StageAction;
use pairloom_storage::objects::ObjectStorage;
use pairloom_storage::objects::power_cut::{RecordedCalls, Survival};
use pairloom_store::ProcessIdentity;

/// Plan with parts, states and files: numbers below 25, and their sums.
fn short_pipeline() -> Plan<ToyStage> {
    plan(vec![node("numbers", ToyStage::count(25)), node("sums", ToyStage::sum("numbers.rows"))])
}

/// Store in `folder` whose calls are recorded.
pub(super) fn recorded_store(folder: &Path) -> (Store, Arc<RecordedCalls>) {
    let folder = folder.join("v1");
    std::fs::create_dir_all(&folder).unwrap();
    let calls = Arc::new(RecordedCalls::new(&folder));
    let objects = ObjectStorage::with_calls(&folder, calls.clone());
    (Store::with_objects(objects, ProcessIdentity::new(None)), calls)
}

/// Disks to draw for each cut, from `PAIRLOOM_POWER_DRAWS`; `None` in a test run.
pub(super) fn draws() -> Option<u64> {
    let asked = std::env::var("PAIRLOOM_POWER_DRAWS").ok()?;
    Some(asked.parse().expect("`PAIRLOOM_POWER_DRAWS` is a number"))
}

/// Rows that a run has announced as committed, and stages that it has announced as finished, after a number of calls.
struct Announced {
    calls: usize,
    rows: BTreeMap<String, u64>,
    finished: Vec<String>,
}

#[test]
fn after_a_power_cut_at_any_call_nothing_announced_is_lost_and_a_run_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (store, calls) = recorded_store(folder.path());
    let announced = Mutex::new(vec![Announced { calls: 0, rows: BTreeMap::new(), finished: vec![] }]);
    let observer = |event: &Event| {
        let mut announced = announced.lock().unwrap();
        let latest = announced.last().unwrap();
        let (mut rows, mut finished) = (latest.rows.clone(), latest.finished.clone());
        match event {
            Event::PartCommitted { stage, rows: new, .. } => *rows.entry(stage.clone()).or_default() += new,
            Event::StageFinished { stage, .. } => finished.push(stage.clone()),
            _ => return,
        }
        announced.push(Announced { calls: calls.count(), rows, finished });
    };
    let summary =
        execute(&short_pipeline(), RunnableStage::run, &store, &options(), &CancelToken::new(), &observer).unwrap();
    assert!(summary.error.is_none());
    let expected = content(folder.path());
    let announced = announced.into_inner().unwrap();
    assert!(calls.count() > 150, "{} calls", calls.count());
    for cut in 0..=calls.count() {
        let known = announced.iter().rfind(|announced| announced.calls <= cut).unwrap();
        let drawn = Survival::Drawn(cut as u64);
        let survivals = if cut % 4 == 0 { vec![Survival::Nothing, Survival::Names, drawn] } else { vec![drawn] };
        for survival in survivals {
            let disk = tempfile::tempdir().unwrap();
            calls.write_disk(cut, survival, &disk.path().join("v1"));
            let (store, _) = recorded_store(disk.path());
            let place = format!("{cut} calls, {survival:?}");
            for status in statuses(&short_pipeline(), &store) {
                let rows = match &status.action {
                    StageAction::Reuse(manifest) => manifest.rows(),
                    StageAction::Resume { rows } => *rows,
                    StageAction::Run => 0,
                };
                assert!(rows >= known.rows.get(&status.name).copied().unwrap_or(0), "{place}: {status:?}");
                assert!(status.is_reuse() || !known.finished.contains(&status.name), "{place}: {status:?}");
            }
            let (summary, _) = run(&short_pipeline(), &store);
            assert!(summary.error.is_none(), "{place}: {:?}", summary.error);
            assert_eq!(content(disk.path()), expected, "{place}");
        }
    }
}

#[test]
fn after_a_power_cut_at_any_call_parts_that_results_share_are_whole() {
    let keyed = |n| earlier_rows::keyed(n, 100);
    let folder = tempfile::tempdir().unwrap();
    let (store, calls) = recorded_store(folder.path());
    assert!(run(&keyed(20), &store).0.error.is_none());
    let before = calls.count();
    assert!(run(&keyed(30), &store).0.error.is_none());
    let expected = content(folder.path());
    for cut in before..=calls.count() {
        for survival in [Survival::Nothing, Survival::Names, Survival::Drawn(cut as u64)] {
            let disk = tempfile::tempdir().unwrap();
            calls.write_disk(cut, survival, &disk.path().join("v1"));
            let (store, _) = recorded_store(disk.path());
            let place = format!("{cut} calls, {survival:?}");
            assert!(statuses(&keyed(20), &store).iter().all(StageStatus::is_reuse), "{place}");
            for n in [30, 20] {
                let (summary, _) = run(&keyed(n), &store);
                assert!(summary.error.is_none(), "{place}: {:?}", summary.error);
            }
            assert_eq!(content(disk.path()), expected, "{place}");
        }
    }
}

#[test]
fn a_torn_manifest_falls_back_to_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = recorded_store(folder.path());
    let plan = short_pipeline();
    let status = statuses(&plan, &store).remove(0);
    let manifest = status.artefact(&store).folder().unwrap().join("manifest.json");
    // A folder in its place makes only the publication of the manifest fail.
    std::fs::create_dir_all(manifest.join("in the way")).unwrap();
    assert!(run(&plan, &store).0.error.is_some());
    std::fs::remove_dir_all(&manifest).unwrap();
    std::fs::write(&manifest, "{\"identity\":").unwrap();
    assert!(matches!(statuses(&plan, &store)[0].action, StageAction::Resume { rows: 25 }));
    assert!(run(&plan, &store).0.error.is_none());
    assert!(statuses(&plan, &store)[0].is_reuse());
}

#[test]
fn a_run_does_not_resume_after_a_part_of_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = recorded_store(folder.path());
    let plan = short_pipeline();
    let artefact = statuses(&plan, &store)[0].artefact(&store);
    let manifest = artefact.folder().unwrap().join("manifest.json");
    std::fs::create_dir_all(manifest.join("in the way")).unwrap();
    assert!(run(&plan, &store).0.error.is_some());
    std::fs::remove_dir_all(&manifest).unwrap();
    let part = artefact.folder().unwrap().join(pairloom_store::Artefact::part_name("rows", 1));
    let size = std::fs::metadata(&part).unwrap().len();
    std::fs::write(&part, vec![0; usize::try_from(size).unwrap()]).unwrap();
    let (summary, events) = run(&plan, &store);
    assert!(summary.error.is_none());
    let resumed = events.iter().find_map(|event| match event {
        Event::StageStarted { stage, resumed_rows, .. } if stage == "numbers" => Some(*resumed_rows),
        _ => None,
    });
    assert_eq!(resumed, Some(10), "the first part is whole");
    assert_eq!(rows(&store, &statuses(&plan, &store)[0], "rows").unwrap(), (0..25).collect::<Vec<_>>());
}
