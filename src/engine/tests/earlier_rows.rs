//! Tests of rows that are copied from earlier results.

use std::collections::HashMap;

use super::*;
use crate::earlier_rows::{NewRows, RowCount};
use pairloom_store::gc::collect_garbage;

/// Numbers below `n`, each with `add` added.
pub(super) fn keyed(n: i64, add: i64) -> Plan<ToyStage> {
    plan(vec![node("numbers", ToyStage::count(n)), node("more", ToyStage::keyed("numbers.rows", add))])
}

/// Content of a store in which only this plan ran.
fn fresh(n: i64, add: i64) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let (summary, _) = run(&keyed(n, add), &Store::open(folder.path()).unwrap());
    assert!(summary.error.is_none());
    content(folder.path())
}

/// Numbers of rows of the stage `more`, and of those that were copied; `None` if it did not run.
fn copied(events: &[Event]) -> Option<(u64, u64)> {
    events.iter().find_map(|event| match event {
        Event::StageFinished { stage, rows, copied, .. } if stage == "more" => Some((*rows, *copied)),
        _ => None,
    })
}

/// Asserts that a store has the artefacts of a fresh one, with the same bytes.
fn assert_contains(folder: &Path, fresh: BTreeMap<String, Vec<u8>>) {
    let all = content(folder);
    for (name, bytes) in fresh {
        assert_eq!(all.get(&name), Some(&bytes), "{name}");
    }
}

#[test]
fn only_new_rows_are_computed_and_the_bytes_are_those_of_a_fresh_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let copied_of = |n, add| copied(&run(&keyed(n, add), &store).1);
    assert_eq!(copied_of(45, 100), Some((45, 0)));
    assert_eq!(copied_of(60, 100), Some((60, 45)), "15 new rows");
    assert_eq!(copied_of(9, 100), Some((9, 9)), "36 rows are gone");
    assert_eq!(copied_of(60, 101), Some((60, 0)), "a changed setting copies nothing");
    assert_eq!(copied_of(60, 100), None, "the old result is still there");
    for (n, add) in [(45, 100), (60, 100), (9, 100), (60, 101)] {
        assert_contains(folder.path(), fresh(n, add));
    }
    let manifest = statuses(&keyed(60, 100), &store).remove(1).reused().unwrap().clone();
    assert_eq!(manifest.row_keys["rows"].bytes, 60 * 16);
}

/// Number of names of the file of each part of the stage `more`.
fn names_of_parts(n: i64, store: &Store) -> Vec<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let folder = statuses(&keyed(n, 100), store)[1].artefact(store).folder().unwrap().join("rows");
    let mut parts: Vec<_> = std::fs::read_dir(folder).unwrap().map(|part| part.unwrap().path()).collect();
    parts.sort();
    parts.iter().map(|part| part.metadata().unwrap().nlink()).collect()
}

/// Sum of the sizes of the files of a folder, each of which counts once.
fn bytes_on_disk(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let files = walkdir::WalkDir::new(folder).into_iter().map(|entry| entry.unwrap().metadata().unwrap());
    let files = files.filter(std::fs::Metadata::is_file);
    files.map(|file| ((file.dev(), file.ino()), file.len())).collect::<HashMap<_, _>>().into_values().sum()
}

#[test]
fn parts_with_the_same_rows_are_files_that_results_share() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    run(&keyed(45, 100), &store);
    assert_eq!(names_of_parts(45, &store), [1; 7]);
    // The last part of the first result has three rows, the seventh of the second one seven.
    assert_eq!(copied(&run(&keyed(60, 100), &store).1), Some((60, 45)));
    assert_eq!(names_of_parts(60, &store), [2, 2, 2, 2, 2, 2, 1, 1, 1]);
    run(&keyed(14, 100), &store);
    assert_eq!(names_of_parts(14, &store), [3, 3]);
    for n in [45, 60, 14] {
        assert_contains(folder.path(), fresh(n, 100));
    }
    let bytes = |n, parts: std::ops::Range<usize>| -> u64 {
        let manifest = statuses(&keyed(n, 100), &store).remove(1).reused().unwrap().clone();
        manifest.tables["rows"][parts].iter().map(|part| part.bytes).sum()
    };
    // Of the two older results, the disk gets back what the kept one with 14 numbers does not share.
    let collected = collect_garbage(&store, 1, false).unwrap();
    let more: Vec<_> = collected.garbage.iter().filter(|item| item.stages.contains("more")).collect();
    let shared: Vec<u64> = more.iter().map(|item| item.bytes - item.freed_bytes).collect();
    assert_eq!(shared, [bytes(45, 0..6), bytes(60, 0..2)], "the first leaves six parts to the second");
    assert!(collected.garbage.iter().all(|item| item.stages.contains("more") || item.freed_bytes == item.bytes));
    // What is removed takes nothing from the others.
    let before = bytes_on_disk(folder.path());
    statuses(&keyed(45, 100), &store)[1].artefact(&store).remove().unwrap();
    assert_eq!(before - bytes_on_disk(folder.path()), more[0].freed_bytes);
    assert_eq!(names_of_parts(60, &store), [2, 2, 1, 1, 1, 1, 1, 1, 1]);
    assert_contains(folder.path(), fresh(60, 100));
    // A damaged file is damaged for all, and is not shared again.
    let part = statuses(&keyed(60, 100), &store)[1].artefact(&store).folder().unwrap().join("rows/part-00001.parquet");
    let mut flipped = std::fs::read(&part).unwrap();
    flipped[20] ^= 1;
    std::fs::write(&part, flipped).unwrap();
    let (summary, events) = run(&keyed(45, 100), &store);
    assert!(summary.error.is_none(), "{:?}", summary.error);
    assert_eq!(copied(&events), Some((45, 38)));
    assert_contains(folder.path(), fresh(45, 100));
}

#[test]
fn a_plan_counts_the_new_rows_of_a_stage_whose_input_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let new_rows = |n, add| {
        let status = statuses(&keyed(n, add), &store).remove(1);
        (status.new_rows, status.reasons.last().cloned())
    };
    run(&keyed(45, 100), &store);
    assert_eq!(new_rows(45, 100), (None, None), "complete");
    let unknown =
        "how many rows are new is unknown until `numbers` has run: those that earlier results have are copied";
    assert_eq!(new_rows(60, 100), (Some(NewRows::AfterRun { stage: "numbers".to_owned() }), Some(unknown.to_owned())));
    run(&plan(vec![node("numbers", ToyStage::count(60))]), &store);
    let text = "15 of 60 rows are new: earlier results have the others".to_owned();
    let count = RowCount { new: 15, known: 45, counted: None };
    assert_eq!(new_rows(60, 100), (Some(NewRows::Counted(count)), Some(text)));
    assert_eq!(copied(&run(&keyed(60, 100), &store).1), Some((60, 45)), "as many are copied");
    assert_eq!(new_rows(60, 101).0, None, "a changed setting");
}

#[test]
fn a_killed_run_resumes_and_its_rows_have_all_their_keys() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    run(&keyed(20, 100), &store);
    let cancel = CancelToken::new();
    let stop = |event: &Event| {
        if matches!(event, Event::PartCommitted { stage, part: 2, .. } if stage == "more") {
            cancel.cancel();
        }
    };
    let summary = execute(&keyed(60, 100), RunnableStage::run, &store, &options(), &cancel, &stop).unwrap();
    assert!(summary.error.is_some());
    let (summary, events) = run(&keyed(60, 100), &store);
    assert!(summary.error.is_none(), "{:?}", summary.error);
    assert!(events.iter().any(|event| matches!(event, Event::StageStarted { stage, resumed_rows, .. }
        if stage == "more" && *resumed_rows >= 21)));
    assert_contains(folder.path(), fresh(60, 100));
    assert_eq!(copied(&run(&keyed(61, 100), &store).1), Some((61, 60)));
}

#[test]
fn damaged_rows_are_computed_again_and_a_warning_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    run(&keyed(45, 100), &store);
    let artefact = statuses(&keyed(45, 100), &store)[1].artefact(&store);
    let part = artefact.folder().unwrap().join("rows/part-00001.parquet");
    let mut flipped = std::fs::read(&part).unwrap();
    flipped[20] ^= 1;
    std::fs::write(&part, flipped).unwrap();
    let (summary, events) = run(&keyed(60, 100), &store);
    assert!(summary.error.is_none(), "{:?}", summary.error);
    assert_eq!(copied(&events), Some((60, 38)), "without the seven rows of the part");
    let warnings: Vec<_> = summary.manifests["more"].warnings.iter().map(|warning| &warning.message).collect();
    assert!(warnings.len() == 1 && warnings[0].contains("part-00001.parquet"), "{warnings:?}");
    assert_contains(folder.path(), fresh(60, 100));
    assert_eq!(to_run(&keyed(45, 100), &store), ["more"], "what is damaged is built again");
    // Without its keys, nothing of a result is copied: these rows are those of the first one.
    std::fs::write(statuses(&keyed(60, 100), &store)[1].artefact(&store).folder().unwrap().join("row_keys/rows"), "")
        .unwrap();
    assert_eq!(copied(&run(&keyed(61, 100), &store).1), Some((61, 38)));
}
